"""The languages whose code is read: how each is written (`LANGUAGES`), and what their calls do (`CALLS`).

A new language is one entry, and the names of its calls. How its interpreter's command line names the code is a row of
`INTERPRETERS` or `ALSO_INTERPRET` in `effects/programs.py`.
"""

import functools
import re
from collections.abc import Mapping
from typing import Final

import msgspec


class Language(msgspec.Struct, frozen=True):
    """How one language is written."""

    name: str
    programs: str = ""  # its interpreters, where they have other names
    comment: str = r"\#[^\n]*"
    bare: bool = False  # a call needs no parentheses: `unlink "x"`
    ticks: bool = False  # code in backticks is a command
    redirects: bool = False  # `print > "file"`, `print | "command"`
    processes: str = ""  # only code with one of these words starts processes
    texts: Mapping[str, str] = {}  # what statements that are no calls do -> a pattern; its group is the argument


_SLASHES: Final = r"//[^\n]*|/\*.*?(?:\*/|\Z)"
_QUOTE: Final = r"""['"]"""
_QUOTED: Final = r"""['"]([^'"\n]*)['"]"""
_TEXT: Final = r'"((?:[^"\\]|\\.)*)"'

LANGUAGES: Final = (
    Language("python", "py pypy ipython"),
    Language(
        "js",
        "javascript node nodejs deno bun tsx ts-node",
        _SLASHES,
        processes="child_process|Deno|Bun|cluster",
        texts={"delete_tree": rf"\brequire\({_QUOTE}rimraf{_QUOTE}\)(?:\.sync)?\(\s*{_QUOTED}"},
    ),
    Language(
        "ruby",
        comment=r"\#[^\n{]*",
        bare=True,
        ticks=True,
        texts={"drop": r"\b([A-Z]\w*(?:::\w+)*\.(?:destroy_all|delete_all))\b"},
    ),
    Language(
        "perl",
        bare=True,
        ticks=True,
        texts={"delete_tree": rf"\bfind\s*\(\s*sub\s*\{{[^{{}}]*\b(?:unlink|rmdir)\b[^{{}}]*\}}\s*,\s*{_QUOTED}"},
    ),
    Language(
        "php",
        comment=rf"\#[^\n]*|{_SLASHES}",
        ticks=True,
        texts={"drop": r"\b([A-Z]\w*::(?:truncate|query\(\)->delete)|DB::table\([^()]*\)->(?:truncate|delete))\(\)"},
    ),
    Language("lua", "luajit", comment=r"--[^\n]*"),
    Language("r", "R Rscript"),
    Language("julia", ticks=True),
    Language("elixir", "iex"),
    Language("groovy", comment=_SLASHES),
    Language("pwsh", "powershell"),
    Language("awk", "gawk mawk nawk", redirects=True, texts={"read": rf"\bgetline\s+(?:\w+\s*)?<\s*{_TEXT}"}),
    Language(
        "tcl",
        "tclsh wish",
        texts={
            "run": r"\bexec\s+([^\n;\]]+)",
            "delete_tree": r"\bfile\s+delete\s+(?:-force\s+)?(?:--\s+)?([^\s;\]]+)",
        },
    ),
    Language(
        "emacs",
        comment=r";[^\n]*",
        texts={
            "run": rf"\((?:async-)?shell-command(?:-to-string)?\s+{_TEXT}",
            "delete": rf"\(delete-file\s+{_TEXT}",
            "delete_tree": rf"\(delete-directory\s+{_TEXT}",
        },
    ),
    Language(
        "applescript",
        "osascript",
        comment=r"--[^\n]*",
        texts={
            "run": rf"\bdo shell script {_TEXT}",
            "delete_tree": r"\b(?:delete|empty (?:the )?trash|move .{0,80} to trash)\b()",
        },
    ),
)

CALLS: Final[Mapping[str, str]] = {
    "delete": """
        os.remove os.unlink os.rmdir os.removedirs .unlink .rmdir unlink rmdir unlinkSync rmSync rmdirSync removeSync
        js:rm js:remove julia:rm file.remove groovy:.delete File.rm File.rmdir File.delete File.unlink FileUtils.rm
        FileUtils.rm_f FileUtils.remove Dir.rmdir Dir.delete Dir.unlink remove-item
        pwsh:ri pwsh:rm pwsh:del pwsh:erase pwsh:rd""",
    "delete_tree": """
        shutil.rmtree .rmtree rmtree remove_tree rimraf rimrafSync rimraf.sync emptyDirSync .deleteDir File.rm_rf rm_rf
        FileUtils.rm_r FileUtils.rm_rf FileUtils.rmtree FileUtils.remove_dir FileUtils.remove_entry
        FileUtils.remove_entry_secure""",
    "move": """
        os.rename os.replace os.renames shutil.move python:.rename python:.replace rename renameSync perl:move julia:mv
        move_uploaded_file file.rename File.rename FileUtils.mv .renameTo""",
    "copy": """
        shutil.copy shutil.copy2 shutil.copyfile copyFileSync copyFile cpSync perl:copy php:copy julia:cp file.copy
        File.cp File.cp_r FileUtils.cp FileUtils.cp_r FileUtils.copy""",
    "link": "shutil.copytree os.symlink os.link",
    "overwrite": """
        os.truncate .write_text .write_bytes writeFileSync writeFile createWriteStream truncateSync truncate
        writeTextFileSync writeTextFile outputFileSync Bun.write file_put_contents File.write IO.write File.truncate
        File.binwrite julia:write awk:print> set-content pwsh:sc out-file clear-content
        pwsh:clc""",
    "write": """
        os.mkdir os.makedirs os.mkfifo .touch .symlink_to .hardlink_to appendFileSync appendFile mkdirSync perl:mkdir
        php:mkdir php:touch julia:touch mkpath FileUtils.touch FileUtils.mkdir_p File.mkdir File.mkdir_p
        File.touch awk:print>> add-content pwsh:ac new-item pwsh:ni""",
    "permissions": "os.chmod os.chown shutil.chown os.lchmod .chmod chmodSync chownSync php:chmod",
    "extract": ".extractall .extract",
    "open": "open io.open codecs.open gzip.open .open fopen File.open",
    "perl_open": "perl:open",
    "read": """
        .read_text .read_bytes readFileSync readFile readTextFileSync readTextFile Bun.file File.read File.readlines
        dotenv.dotenv_values dotenv_values
        File.foreach IO.read IO.readlines file_get_contents readfile slurp readLines julia:read""",
    "content": ".read .readline",
    "run": """
        os.system os.popen pty.spawn commands.getoutput
        asyncio.create_subprocess_shell asyncio.create_subprocess_exec
        subprocess.run subprocess.call subprocess.Popen subprocess.check_call subprocess.check_output
        subprocess.getoutput subprocess.getstatusoutput os.execl os.execlp os.execle os.execv os.execvp os.execve
        os.execvpe os.posix_spawn os.posix_spawnp system exec execSync spawn spawnSync execFile execFileSync
        Deno.Command popen capture2 capture2e capture3 shell_exec passthru proc_open pcntl_exec os.execute io.popen
        system2 r:shell System.cmd System.shell os.cmd groovy:.execute awk:|""",
    "spawn": "python:.system os.spawnl os.spawnlp os.spawnle os.spawnv os.spawnvp os.spawnve",
    "code": """
        python:exec eval code.interact runpy.run_string runInThisContext runInNewContext instance_eval class_eval
        php:assert loadstring lua:load lua:dofile include_string Code.eval_string Eval.me evaluate pwsh:iex
        invoke-expression""",
    "code_last": "Function create_function",
    "chdir": "os.chdir process.chdir Dir.chdir perl:chdir php:chdir",
    "kill": """
        os.kill os.killpg process.kill Deno.kill Process.kill perl:kill posix_kill stop-process pwsh:spps pwsh:kill""",
    "fork": "os.fork os.forkpty fork Process.fork pcntl_fork",
    "download": """
        requests.get httpx.get urllib.request.urlopen urllib.request.urlretrieve urllib.urlopen urllib2.urlopen .urlopen
        .recv .send .sendall .sendto .sendmail .send_message .storbinary .storlines fetch axios axios.get axios.post
        js:get URI.open Net.HTTP.get perl:get LWP.Simple.get curl_exec pwsh:iwr pwsh:irm pwsh:curl pwsh:wget
        invoke-webrequest invoke-restmethod""",
    "upload": "requests.post requests.put requests.patch requests.request httpx.post httpx.put httpx.patch",
    "decode": """
        base64.b64decode base64.urlsafe_b64decode base64.decodebytes base64.b32decode base64.b16decode base64.b85decode
        bytes.fromhex bytearray.fromhex binascii.unhexlify binascii.a2b_hex binascii.a2b_base64 codecs.decode .decode
        zlib.decompress gzip.decompress marshal.loads pickle.loads atob Buffer.from Base64.decode64 decode64
        Base64.strict_decode64 Base64.urlsafe_decode64 .unpack .unpack1 decode_base64 perl:pack base64_decode hex2bin
        Base.decode64 Base.decode16 .decodeBase64 .decodeHex ruby:.pack""",
    "print": "print sys.stdout.write sys.stderr.write pprint.pprint",
    "connect": ".connect .create_engine",
    "sql": "python:.execute .executescript .executemany",
    "device": "format-volume clear-disk initialize-disk",
    "drop": ".drop_all .drop_database .flushall .flushdb .dropDatabase python:.delete",
    "destroy": "boto3.delete_ boto3.terminate_",
    "socket": "socket.socket socket.create_connection",
    "attach": "os.dup2 .fileno",
    "opaque": "os.open",
}
"""What calls do, and their names: `code_actions.py` tells what each word means.

A name counts as a whole, `os.remove`, or by its last part if only that is listed: `rmSync` for `fs.rmSync`. The value
before a name with a dot is its first argument: `.unlink` for `Path("x").unlink()`. `perl:` before a name: only in this
language.
"""


@functools.cache
def language_of_program(program: str) -> Language | None:
    """The language that an interpreter reads: Python for `python3.12`."""
    names = {program, re.sub(r"[\d.]+$", "", program)}
    return next((each for each in LANGUAGES if names & {each.name, *each.programs.split()}), None)


@functools.cache
def calls_of(language: str) -> dict[str, str]:
    """What the calls of one language do, by their names."""
    found = {name: does for does, names in CALLS.items() for name in names.split()}
    own = {name.partition(":")[2]: does for name, does in found.items() if name.startswith(f"{language}:")}
    return {name: does for name, does in found.items() if ":" not in name} | own
