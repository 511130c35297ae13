/* The failure answer in the words of each dialect: refused, and the reason where the model reads it.

   What an agent does with an answer was measured on the real ones. client_launcher.sh has the same two tables. */

#ifndef BILLHOOK_CLIENT_WORDS
#define BILLHOOK_CLIENT_WORDS

#include <stdio.h>
#include <string.h>

enum { LONGEST_EVENT = 100 };
enum kind { OTHER, TOOL, PROMPT, PERMISSION, COMPACT, SUBAGENT, UNREFUSED };

/* The events of each kind in the spelling of every agent, without case, `_` and `-`. The last are those whose refusal
   has no effect, or would keep an agent going that wants to stop. */
static const char *const kinds[] = {
    [TOOL] = " pretooluse beforetool beforeshellexecution beforemcpexecution beforereadfile beforetabfileread ",
    [PROMPT] = " userpromptsubmit beforeagent userpromptsubmitted beforesubmitprompt ",
    [PERMISSION] = " permissionrequest ",
    [COMPACT] = " precompact precompress ",
    [SUBAGENT] = " subagentstart ",
    [UNREFUSED] = " stop subagentstop teammateidle posttooluse posttoolusefailure permissiondenied notification "
              "messagedisplay sessionstart sessionend setup stopfailure postcompact postmodelswitch "
              "instructionsloaded cwdchanged filechanged directoryadded worktreeremove "
              "aftertool afteragent aftermodel beforetoolselection agentstop erroroccurred "
              "userprompttransformed aftershellexecution aftermcpexecution afterfileedit aftertabfileedit "
              "afteragentresponse afteragentthought workspaceopen todocreated todocompleted sessiondelete ",
};

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

/* In a form `@` is the reason, and `'` the quote. */
#define BLOCK "{'decision':'block','reason':'@'}\n"
#define DENY "'permissionDecision':'deny','permissionDecisionReason':'@'"
#define FOR_TOOL "'hookSpecificOutput':{'hookEventName':'PreToolUse'," DENY "}"
#define DENIED "'behavior':'deny','message':'@'"
#define FOR_PERMISSION "'hookSpecificOutput':{'hookEventName':'PermissionRequest','decision':{" DENIED "}}"
#define CURSOR "'permission':'deny','user_message':'@','agent_message':'@'"
#define IS(kind) (1 << (kind))
#define ANY (IS(OTHER) | IS(TOOL) | IS(PROMPT) | IS(PERMISSION) | IS(COMPACT))
#define PASSES NULL

/* The first row that fits. The reason is on stderr as well; the code is that of an answer whose form was written. */
static const struct wording {
    const char *dialect;
    int kinds, code;
    const char *form;
} wordings[] = {
    {"cursor", IS(SUBAGENT), 0, "{" CURSOR "}\n"},
    {NULL, IS(SUBAGENT) | IS(UNREFUSED), 0, PASSES},
    {"claude", IS(TOOL), 2, "{" FOR_TOOL "}\n"}, /* the code is for Claude Code, the form for who reads its settings */
    {"claude", IS(PROMPT), 0, BLOCK},            /* Copilot, which reads them too, would not hear the code here */
    {"claude", IS(PERMISSION), 0, "{" FOR_PERMISSION "}\n"},
    {"claude", ANY, 2, ""},
    {"claw", ANY, 2, "@"},
    {"claw-text", ANY, 2, "@"},
    {"lesson", IS(TOOL), 1, ""},
    {"lesson", ANY, 1, BLOCK}, /* where the code alone is a warning */
    {"codex", IS(COMPACT), 0, PASSES},
    {"codex", IS(PERMISSION), 0, "{" FOR_PERMISSION "}\n"},
    {"codex", ANY, 2, ""},
    {"gemini", IS(COMPACT), 0, PASSES},
    {"gemini", ANY, 2, ""},
    {"qwen", IS(COMPACT), 0, PASSES},
    {"qwen", IS(PERMISSION), 0, "{" FOR_PERMISSION "}\n"},
    {"qwen", ANY, 2, ""},
    {"copilot", IS(COMPACT), 0, PASSES},
    {"copilot", IS(TOOL), 0, "{" DENY "," FOR_TOOL "}\n"}, /* one for each spelling of its events */
    {"copilot", IS(PROMPT), 0, BLOCK},
    {"copilot", IS(PERMISSION), 0, "{" DENIED "," FOR_PERMISSION "}\n"},
    {"copilot", ANY, 2, "{" DENY "}\n"},
    {"cursor", IS(COMPACT), 0, PASSES},
    {"cursor", IS(PROMPT), 0, "{'continue':false,'user_message':'@'}\n"},
    {"cursor", IS(TOOL), 0, "{" CURSOR "}\n"},
    {"cursor", ANY, 2, "{" CURSOR "}\n"},
    /* universal, and who is not known */
    {NULL, IS(PROMPT), 0, "{'decision':'block','reason':'@','continue':false,'stopReason':'@'}\n"},
    {NULL, IS(PERMISSION), 0, "{" FOR_PERMISSION "}\n"},
    {NULL, ANY, 2, "{'decision':'block','reason':'@'," DENY "," CURSOR "," FOR_TOOL "}\n"},
};

static const struct wording *wording_for(const char *dialect, enum kind kind) {
    const struct wording *row = wordings;
    while ((row->dialect && strcmp(row->dialect, dialect)) || !(row->kinds & IS(kind))) row++;
    return row;
}

/* `why` has no quote and no backslash in it: it is put into JSON as it is. */
static void spell(char *text, size_t room, const char *form, const char *why) {
    size_t n = 0;
    for (; *form && n + 1 < room; form++)
        if (*form != '@') text[n++] = *form == '\'' ? '"' : *form;
        else n += (size_t)snprintf(text + n, room - n, "billhook: %s", why);
    text[n < room ? n : room - 1] = 0;
}

#endif
