// SPDX-License-Identifier: Apache-2.0
// Three files with fixed names, which vgpud serves below /ui; nothing is inline, as its policy wants it.
const BANNER = "/*! vgpud, Apache-2.0. With uPlot 1.6.32, (c) 2022 Leon Sorokin, MIT: see web/README.md. */";

export default {
  base: "/ui/",
  build: {
    outDir: "dist",
    emptyOutDir: true,
    modulePreload: false,
    assetsInlineLimit: 0,
    target: "es2021",
    rollupOptions: {
      output: { banner: BANNER, entryFileNames: "app.js", assetFileNames: "app.[ext]", inlineDynamicImports: true },
    },
  },
};
