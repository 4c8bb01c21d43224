-- SPDX-License-Identifier: Apache-2.0
-- Version 4: how long GPU requests of all VMs waited. gpu_of_ns: the time of the windows in which that is known.
ALTER TABLE host ADD COLUMN gpu_of_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE host ADD COLUMN gpu_wait_ns INTEGER NOT NULL DEFAULT 0;
