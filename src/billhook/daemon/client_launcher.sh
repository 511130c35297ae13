#!/bin/sh
# billhook-hook where nothing could be compiled: runs `billhook hook` of the same installation. If that can't start or
# breaks off, the event is refused in the agent's own format, as client_words.h has it.

find_billhook() { # beside this file, links followed; else on PATH
    while [ -L "$me" ]; do
        link=$(PATH=$PATH:/usr/bin:/bin readlink "$me") || break
        case $link in /*) me=$link ;; *) me=${me%/*}/$link ;; esac
    done
    [ -x "${me%/*}/billhook" ] && billhook=${me%/*}/billhook || billhook=$(command -v billhook)
}

run_hook() { # signals go to `billhook hook`, which answers them itself; it ends when this process is killed
    trap 'ended=1; [ -z "$child" ] || kill "$child"' HUP INT QUIT TERM
    BILLHOOK_CLIENT="$$ 0" "$billhook" hook "$@" <&3 3<&- &
    child=$!
    [ -z "$ended" ] || kill "$child"
    wait "$child"
    code=$?
    while kill -0 "$child"; do # a signal ended the waiting
        wait "$child"
        code=$?
    done 2>/dev/null
}

read_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
        --as=*) dialect=${1#*=} ;;
        --on-failure=*) on_failure=${1#*=} ;;
        --as) dialect=${2-} ;;
        --on-failure) on_failure=${2-} ;;
        -*) ;;
        *) argument=${argument:-$1} ;;
        esac
        case $1 in --as | --on-failure | --deadline | --config | --from) shift ;; esac
        [ $# -gt 0 ] && shift
    done
}

read_rest() { # of stdin; an agent may leave it open
    cat <&3 &
    reader=$!
    (sleep 1 && kill "$reader") >/dev/null 2>&1 &
    wait "$reader"
} 2>/dev/null

read_event() { # several names, one of them deep in a tool's input for example, count as none
    found=$(read_rest | tr '\t\r\n' '   ' | grep -oE '"permission_mode"|"hook_event_name" *: *"[^"]*"' | sort -u)
    case $dialect,${COPILOT_PROJECT_DIR-}${COPILOT_CLI-},$found in
    claude,,* | *'"permission_mode"'*) ;;
    claude,*) dialect=copilot ;; # it reads Claude Code's settings
    esac
    event=$(printf '%s\n' "$found" | sed -n 's/^"hook_event_name" *: *"\(.*\)"$/\1/p')
    event=$(printf '%s' "${event:-${argument:-${HOOK_EVENT-}}}" | tr -d '_-' | tr '[:upper:]' '[:lower:]')
}

find_kind() {
    case $event in
    pretooluse | beforetool | beforeshellexecution | beforemcpexecution | beforereadfile | beforetabfileread) kind=tool ;;
    userpromptsubmit | beforeagent | userpromptsubmitted | beforesubmitprompt) kind=prompt ;;
    permissionrequest) kind=permission ;;
    precompact | precompress) kind=compact ;;
    subagentstart) kind=subagent ;;
    stop | subagentstop | teammateidle | posttooluse | posttoolusefailure | permissiondenied | notification | \
        messagedisplay | sessionstart | sessionend | setup | stopfailure | postcompact | postmodelswitch | \
        instructionsloaded | cwdchanged | filechanged | directoryadded | worktreeremove | aftertool | afteragent | \
        aftermodel | beforetoolselection | agentstop | erroroccurred | userprompttransformed | aftershellexecution | \
        aftermcpexecution | afterfileedit | aftertabfileedit | afteragentresponse | afteragentthought | workspaceopen | \
        todocreated | todocompleted | sessiondelete) kind=unrefused ;;
    *) kind=other ;;
    esac
}

allow() {
    echo "billhook: the event passes without having been judged" >&2
    exit 0
}

deny() { # CODE [JSON]; what `billhook hook` may have printed before would spoil the JSON
    [ "$1" = 0 ] && refusing=2 || refusing=$1
    [ -z "${2-}" ] || { [ -z "$begun" ] && printf '%s\n' "$2" || exit "$refusing"; }
    exit "$1"
} 2>/dev/null

answer() {
    block="\"decision\":\"block\",\"reason\":\"$why\""
    deny="\"permissionDecision\":\"deny\",\"permissionDecisionReason\":\"$why\""
    tool="\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",$deny}"
    denied="\"behavior\":\"deny\",\"message\":\"$why\""
    permission="\"hookSpecificOutput\":{\"hookEventName\":\"PermissionRequest\",\"decision\":{$denied}}"
    cursor="\"permission\":\"deny\",\"user_message\":\"$why\",\"agent_message\":\"$why\""
    case $dialect:$kind in
    cursor:subagent) deny 0 "{$cursor}" ;;
    *:subagent | *:unrefused) allow ;;
    claude:tool) deny 2 "{$tool}" ;;
    claude:prompt) deny 0 "{$block}" ;;
    claude:permission | codex:permission | qwen:permission) deny 0 "{$permission}" ;;
    codex:compact | gemini:compact | qwen:compact | copilot:compact | cursor:compact) allow ;;
    claude:* | codex:* | gemini:* | qwen:*) deny 2 ;;
    claw:* | claw-text:*) deny 2 "$why" ;;
    lesson:tool) deny 1 ;;
    lesson:*) deny 1 "{$block}" ;;
    copilot:tool) deny 0 "{$deny,$tool}" ;;
    copilot:prompt) deny 0 "{$block}" ;;
    copilot:permission) deny 0 "{$denied,$permission}" ;;
    copilot:*) deny 2 "{$deny}" ;;
    cursor:prompt) deny 0 "{\"continue\":false,\"user_message\":\"$why\"}" ;;
    cursor:tool) deny 0 "{$cursor}" ;;
    cursor:*) deny 2 "{$cursor}" ;;
    *:prompt) deny 0 "{$block,\"continue\":false,\"stopReason\":\"$why\"}" ;;
    *:permission) deny 0 "{$permission}" ;;
    *) deny 2 "{$block,$deny,$cursor,$tool}" ;;
    esac
}

me=$0 code=127 dialect=claude on_failure= argument= begun= child= ended=
{ true 3<&0; } 2>/dev/null || exec </dev/null # closed
[ -d /dev/stdin ] && exec </dev/null         # Python does not start with a folder there
exec 3<&0
find_billhook
[ -n "$billhook" ] && run_hook "$@"
read_arguments "$@"
case $code:$dialect in 0:* | 2:* | 1:lesson) exit "$code" ;; esac

PATH=$PATH:/usr/bin:/bin LC_ALL=C
export LC_ALL
trap '' PIPE
why="billhook: billhook hook broke off"
case $code in 126 | 127) why="billhook: billhook hook can not be started" ;; 1) ;; *) begun=1 ;; esac
read_event
find_kind
echo "$why" >&2
[ "$on_failure" = allow ] && allow
answer
