/* The failure answer in each dialect: a refusal, with the reason where the model reads it.

   The tables are generated. How each agent treats an answer was measured with the real agents. */

#ifndef BILLHOOK_CLIENT_WORDS
#define BILLHOOK_CLIENT_WORDS

#include <stdio.h>
#include <string.h>

enum { LONGEST_EVENT = 100 };
enum kind { OTHER, TOOL, PROMPT, PERMISSION, COMPACT, SUBAGENT, UNREFUSED };

#define IS(kind) (1 << (kind))
#define ANY (IS(OTHER) | IS(TOOL) | IS(PROMPT) | IS(PERMISSION) | IS(COMPACT))
#define EVERY (ANY | IS(SUBAGENT) | IS(UNREFUSED))
#define PASSES NULL

struct wording {
    const char *dialect;
    int kinds, code;
    const char *form;
};

#include "table.h"

static enum kind kind_of(const char *event) {
    char folded[LONGEST_EVENT + 3] = " ";
    size_t n = 1;
    for (; *event && n <= LONGEST_EVENT; event++)
        if (*event == ' ') return OTHER;
        else if (*event != '_' && *event != '-')
            folded[n++] = (char)(*event >= 'A' && *event <= 'Z' ? *event + 'a' - 'A' : *event);
    folded[n] = ' ';
    for (enum kind kind = TOOL; n > 1 && kind <= UNREFUSED; kind++)
        if (strstr(kinds[kind], folded)) return kind;
    return OTHER;
}

static const struct wording *wording_for(const struct wording *row, const char *dialect, enum kind kind) {
    while ((row->dialect && strcmp(row->dialect, dialect)) || !(row->kinds & IS(kind))) row++;
    return row;
}

/* In a form `@` is the reason and `'` is the quote. `why` goes into JSON unescaped: it has no quotes or backslashes. */
static void spell(char *text, size_t room, const char *form, const char *why) {
    size_t n = 0;
    for (; *form && n + 1 < room; form++)
        if (*form != '@') text[n++] = *form == '\'' ? '"' : *form;
        else n += (size_t)snprintf(text + n, room - n, "billhook: %s", why);
    text[n < room ? n : room - 1] = 0;
}

#endif
