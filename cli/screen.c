/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/screen.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <curses.h>
#include <langinfo.h>
#include <term.h>

/* Escape counts as a key if no other byte of a key sequence follows within this time. */
#define ESCAPE_MS 50

#define CTRL_L 014

struct vg_screen {
    SCREEN *curses;
    sigset_t taken;
    sigset_t before;
    int signal_fd;
    attr_t attrs[VG_ATTR_MAX];
    short pairs[VG_ATTR_MAX];
};

/* SIGWINCH reports a new size. After SIGCONT, other programs may have used the terminal. */
static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};

static void
choose_attrs(vg_screen *screen)
{
    static const struct {
        attr_t mono;
        attr_t attr;
        short front; /* -1 for the terminal's default */
        short back;
    } looks[VG_ATTR_MAX] = {
        [VG_ATTR_PLAIN] = {A_NORMAL, A_NORMAL, -1, -1},
        [VG_ATTR_BOLD] = {A_BOLD, A_BOLD, -1, -1},
        [VG_ATTR_DIM] = {A_DIM, A_DIM, -1, -1},
        [VG_ATTR_HEADER] = {A_REVERSE, A_NORMAL, COLOR_BLACK, COLOR_GREEN},
        [VG_ATTR_SORTED] = {A_REVERSE | A_BOLD, A_BOLD, COLOR_BLACK, COLOR_CYAN},
        [VG_ATTR_SELECTED] = {A_REVERSE | A_BOLD, A_NORMAL, COLOR_BLACK, COLOR_CYAN},
        [VG_ATTR_USED] = {A_NORMAL, A_NORMAL, COLOR_GREEN, -1},
        [VG_ATTR_LOST] = {A_BOLD, A_BOLD, COLOR_RED, -1},
        [VG_ATTR_WARN] = {A_BOLD, A_NORMAL, COLOR_YELLOW, -1},
        [VG_ATTR_BAD] = {A_REVERSE, A_BOLD, COLOR_WHITE, COLOR_RED},
    };
    const char *no_color = getenv("NO_COLOR");
    bool color = has_colors() && !(no_color && no_color[0]) && start_color() == OK &&
                 use_default_colors() == OK;

    for (int i = 0; i < VG_ATTR_MAX; i++) {
        bool paired = color && (looks[i].front >= 0 || looks[i].back >= 0) &&
                      init_pair((short)(i + 1), looks[i].front, looks[i].back) == OK;
        screen->pairs[i] = paired ? (short)(i + 1) : 0;
        screen->attrs[i] = paired ? looks[i].attr : looks[i].mono;
    }
}

bool
vg_screen_can_open(void)
{
    const char *term = getenv("TERM");
    int error;

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !term || !term[0] ||
        setupterm(term, STDOUT_FILENO, &error) != OK)
        return false;
    const char *go = tigetstr("cup");
    bool can = go && go != (const char *)-1 && tigetstr("ed") && !tigetflag("gn");
    del_curterm(cur_term);
    return can;
}

vg_screen *
vg_screen_open(void)
{
    vg_screen *screen = g_new0(vg_screen, 1);
    screen->curses = newterm(NULL, stdout, stdin);
    if (!screen->curses) {
        g_free(screen);
        return NULL;
    }
    set_term(screen->curses);
    sigemptyset(&screen->taken);
    for (size_t i = 0; i < G_N_ELEMENTS(taken); i++)
        sigaddset(&screen->taken, taken[i]);
    pthread_sigmask(SIG_BLOCK, &screen->taken, &screen->before);
    screen->signal_fd = signalfd(-1, &screen->taken, SFD_NONBLOCK | SFD_CLOEXEC);
    set_escdelay(ESCAPE_MS);
    cbreak();
    noecho();
    nonl();
    nodelay(stdscr, TRUE);
    keypad(stdscr, TRUE);
    curs_set(0);
    choose_attrs(screen);
    return screen;
}

void
vg_screen_close(vg_screen *screen)
{
    if (!screen)
        return;
    endwin();
    delscreen(screen->curses);
    close(screen->signal_fd);
    pthread_sigmask(SIG_SETMASK, &screen->before, NULL);
    g_free(screen);
}

vg_grid *
vg_screen_grid(const vg_screen *screen)
{
    (void)screen;
    return vg_grid_new(getmaxy(stdscr), getmaxx(stdscr),
                       strcmp(nl_langinfo(CODESET), "UTF-8") == 0);
}

void
vg_screen_draw(vg_screen *screen, const vg_grid *grid)
{
    int n_columns = vg_grid_columns(grid);
    g_autofree cchar_t *line = g_new0(cchar_t, (size_t)n_columns + 1);

    for (int row = 0; row < vg_grid_rows(grid); row++) {
        const struct vg_grid_cell *cells = vg_grid_row(grid, row);
        int n = 0;
        for (int i = 0; i < n_columns; i++) {
            if (cells[i].text[0])
                setcchar(&line[n++], cells[i].text, screen->attrs[cells[i].attr],
                         screen->pairs[cells[i].attr], NULL);
        }
        mvadd_wchnstr(row, 0, line, n);
    }
    refresh();
}

int
vg_screen_key(vg_screen *screen)
{
    wint_t c;

    (void)screen;
    int kind = wget_wch(stdscr, &c);
    if (kind == ERR)
        return VG_KEY_NONE;
    if (kind == OK && c == CTRL_L) {
        clearok(curscr, TRUE);
        return VG_KEY_OTHER;
    }
    if (kind == OK)
        return c == '\r' ? VG_KEY_ENTER : (int)c;
    switch (c) {
    case KEY_UP:
        return VG_KEY_UP;
    case KEY_DOWN:
        return VG_KEY_DOWN;
    case KEY_PPAGE:
        return VG_KEY_PAGE_UP;
    case KEY_NPAGE:
        return VG_KEY_PAGE_DOWN;
    case KEY_HOME:
        return VG_KEY_HOME;
    case KEY_END:
        return VG_KEY_END;
    case KEY_BACKSPACE:
        return VG_KEY_BACKSPACE;
    case KEY_ENTER:
        return VG_KEY_ENTER;
    case KEY_F(1):
        return '?';
    case KEY_F(10):
        return 'q';
    default:
        return VG_KEY_OTHER;
    }
}

/* ---- signals ---- */

int
vg_screen_signal_fd(const vg_screen *screen)
{
    return screen->signal_fd;
}

static void
deliver(int signal_number)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, signal_number);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* Stops until SIGCONT arrives. */
static void
stop(const vg_screen *screen)
{
    endwin();
    deliver(SIGTSTP);
    pthread_sigmask(SIG_BLOCK, &screen->taken, NULL);
}

static void
follow_size(void)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
        resizeterm(size.ws_row, size.ws_col);
}

int
vg_screen_take_signals(vg_screen *screen)
{
    struct signalfd_siginfo info;
    int ends = 0;

    while (read(screen->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        switch (info.ssi_signo) {
        case SIGTSTP:
            stop(screen);
            break;
        case SIGCONT:
        case SIGWINCH:
            break;
        default:
            ends = (int)info.ssi_signo;
            break;
        }
        follow_size();
        /* Another program may have written to the terminal. */
        if (info.ssi_signo != SIGWINCH) {
            reset_prog_mode();
            clearok(curscr, TRUE);
        }
    }
    return ends;
}

void
vg_screen_die(vg_screen *take_screen, int signal_number)
{
    vg_screen_close(take_screen);
    deliver(signal_number);
    /* A parent process has set the signal to be ignored or blocked. */
    _exit(128 + signal_number);
}
