"""Programs that end processes, change services, users, firewalls and the kernel, and places that run at start-up."""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final, Literal

from billhook.effects.effect import UNKNOWN, Effect, Weight
from billhook.effects.places import World, inside
from billhook.effects.table import Call, Reader, Row, word_set

_FIREWALL_CHANGES: Final = (
    "-F --flush -X --delete-chain -P --policy -A --append -I --insert -D --delete -R --replace -Z -N --new-chain -E"
)
_FIREWALLD_CHANGES: Final = (
    "--add-port --add-service --add-rich-rule --add-source --remove-port --remove-service --remove-rich-rule "
    "--set-default-zone --set-target --panic-on --direct"
)

_LASTING: Final = (
    "systemctl enable|disable|mask|unmask|reenable|preset|preset-all|link|edit|revert|set-default|add-wants|"
    "add-requires|set-property|set-environment"
)
_SYSTEMCTL: Final = "-H -M -t -p -n -o --root --type --property --state --host --machine"
_SPACES: Final = "-n --namespace"

ROWS: Final[tuple[Row, ...]] = (
    # power: every process ends
    Row("shutdown", "kill", dry="-c -k --show", scope="system", weight="heavy"),
    Row("reboot|halt|poweroff|killall5|kexec", "kill", dry="-w --wtmp-only -l", scope="system", weight="heavy"),
    Row("init|telinit 0|1|6|s|S", "kill", scope="system", weight="heavy"),
    Row("systemctl|loginctl poweroff|reboot|halt|kexec|soft-reboot|rescue|emergency|isolate", "kill", scope="system",
        weight="heavy"),
    Row("systemctl|loginctl suspend|hibernate|hybrid-sleep|kill", "kill", scope="system"),
    Row("loginctl terminate-user|kill-user|terminate-session|kill-session|terminate-seat", "kill", scope="system"),
    # processes
    Row("fuser", "kill", "all", needs="-k --kill", dry="-m --mount", values=_SPACES, weight="light"),
    Row("fuser", "kill", "all", needs="-k --kill & -m --mount", values=_SPACES),
    Row("pm2 kill", "kill", scope="home"),
    Row("pm2|supervisorctl stop|delete|del all", "kill", scope="home"),
    # services
    Row("systemctl stop", "kill", scope="system", light="--user", values="-H -M -t -p"),
    Row("systemctl restart|try-restart|reload-or-restart", "kill", scope="system", weight="light"),
    Row("systemctl start|reload|daemon-reexec", "persist", scope="system", weight="light", light="--user"),
    Row(_LASTING, "persist", dry="--user", values=_SYSTEMCTL, scope="system"),
    Row(_LASTING, "persist", needs="--user", values=_SYSTEMCTL, scope="home"),
    Row("systemd-run", "persist", "none", needs="--on-* --timer-*", dry="--user", scope="system"),
    Row("systemd-run", "persist", "none", needs="--on-* --timer-* & --user", scope="home"),
    Row("service|rc-service * stop", "kill", scope="system"),
    Row("service|rc-service * restart|force-reload", "kill", scope="system", weight="light"),
    Row("service|rc-service * start|reload", "persist", scope="system", weight="light"),
    Row("rc-update add|del|delete", "persist", scope="system"),
    Row("update-rc.d|chkconfig", "persist", needs="on off enable disable defaults remove --add --del", scope="system"),
    Row("launchctl load|bootstrap|enable|submit|setenv|config", "persist", scope="home"),
    Row("launchctl unload|bootout|remove|disable|kill|stop|reboot", "kill", scope="home"),
    Row("atrm", "kill", weight="light", scope="home"),
    Row("at", "kill", needs="-d -r", weight="light", scope="home"),
    Row("at *", "persist", dry="-d -r -l -c -V", values="-f -q -t", scope="home"),
    Row("at", "persist", "none", needs="-t", dry="-l -c -V", values="-f -q -t", scope="home"),
    Row("batch", "persist", "none", dry="-l -c -V", scope="home"),
    # users
    Row("useradd|adduser|userdel|deluser|usermod|newusers|chpasswd|vipw|vigr", "persist", scope="system"),
    Row("groupadd|addgroup|groupdel|delgroup|groupmod|gpasswd|groupmems", "persist", scope="system"),
    Row("passwd", "persist", dry="-S --status", scope="system"),
    Row("chage", "persist", dry="-l --list", scope="system"),
    Row("visudo", "persist", dry="-c --check -V", scope="system"),
    Row("chsh", "persist", dry="-l --list-shells", scope="home"),
    Row("sysadminctl", "persist", needs="-addUser -deleteUser -resetPasswordFor", scope="system"),
    Row("dseditgroup", "persist", dry="-o=read -o=checkmember", values="-o", scope="system"),
    Row("dscl", "persist", needs="-create -delete -passwd -append -change", scope="system"),
    Row("timedatectl|localectl set-timezone|set-locale|set-keymap", "persist", scope="system", weight="light"),
    Row("hostnamectl set-hostname", "persist", scope="system"),
    Row("hostnamectl hostname *", "persist", scope="system"),
    # the clock, and what is kept about the past
    Row("timedatectl set-time|set-ntp", "persist", scope="system"),
    Row("date", "persist", needs="-s --set", values="-d --date -f --file -r --reference", scope="system"),
    Row("date [0-1][0-9][0-3][0-9]*", "persist", values="-d --date -f --file -r --reference", scope="system"),
    Row("hwclock", "persist", needs="--set", dry="--test", scope="system"),
    Row("journalctl", "delete", "none", noun="journal", needs="--vacuum-*", recursive="always", scope="system"),
    Row("logrotate", "write", noun="logs of", needs="-f --force", dry="-d --debug", values="-s -m -l", scope="system"),
    Row("history", "overwrite", "none", noun="history", needs="-w", scope="home"),
    Row("snapper delete|rm|rollback", "delete", noun="snapshots", scope="outside"),
    Row("timeshift", "delete", "none", noun="snapshots", needs="--delete --delete-all", scope="outside"),
    Row("tmutil delete|deletelocalsnapshots|deleteinprogress|disable", "delete", noun="backups", scope="outside"),
    # keys, passwords and settings of the user
    Row("gpg|gpg2", "delete", "all", noun="secret key", needs="--delete-secret-*", dry="-n --dry-run", scope="home"),
    Row("security delete-*", "delete", noun="keychain", scope="home"),
    Row("secret-tool clear", "delete", noun="secret", scope="home"),
    Row("pass rm|remove|delete", "delete", noun="password", scope="home"),
    Row("defaults delete|remove", "delete", noun="settings", scope="home"),
    Row("dconf reset", "delete", noun="settings", needs="-f", scope="home"),
    Row("gsettings reset-recursively", "delete", noun="settings", scope="home"),
    # firewalls, access control and the kernel
    Row("iptables|ip6tables|ebtables|arptables|iptables-legacy|iptables-nft|ip6tables-legacy|ip6tables-nft",
        "permissions", needs=_FIREWALL_CHANGES, scope="system"),
    Row("ipset", "permissions", "all", needs="destroy flush del -X -F", scope="system"),
    Row("iptables-restore|ip6tables-restore", "permissions", dry="-t --test", scope="system"),
    Row("nft flush|delete|add|insert|replace|destroy", "permissions", dry="-c --check", scope="system"),
    Row("nft", "permissions", needs="-f --file", dry="-c --check", scope="system"),
    Row("ufw disable|reset|allow|deny|delete|default|enable|insert|limit|reject|logging|route", "permissions",
        dry="--dry-run", scope="system"),
    Row("firewall-cmd", "permissions", needs=_FIREWALLD_CHANGES, scope="system"),
    Row("pfctl", "permissions", needs="-d -F -f -e", dry="-n", scope="system"),
    Row("setenforce 0|permissive|Permissive", "permissions", scope="system"),
    Row("setsebool", "permissions", scope="system"),
    Row("aa-teardown|aa-disable|aa-complain|aa-remove-unknown", "permissions", scope="system"),
    Row("apparmor_parser", "permissions", needs="-R --remove", scope="system"),
    Row("xattr", "permissions", files=True, needs="-d -c", recursive="-r", values="-d -p -w"),
    Row("spctl", "permissions", needs="--master-disable --global-disable --disable", scope="system"),
    Row("csrutil|fdesetup disable|clear", "permissions", scope="system"),
    Row("csrutil authenticated-root disable", "permissions", scope="system"),
    Row("profiles remove", "delete", noun="profiles", scope="system"),
    Row("auditctl", "permissions", needs="-D -e -d", scope="system"),
    Row("rmmod|insmod", "permissions", scope="system"),
    Row("sysctl", "permissions", "all", needs="-w --write -p --load --system [!-]*=*", scope="system"),
    Row("modprobe", "permissions", needs="-r --remove", dry="-n --dry-run", scope="system"),
    Row("ip route|rule flush|del|delete", "permissions", scope="system"),
    Row("ip addr|address|a|link flush|del|delete", "permissions", scope="system"),
    Row("ip link|l set", "permissions", needs="down", scope="system"),
    Row("route del|delete|flush", "permissions", scope="system"),
    Row("ifconfig", "permissions", needs="down -a", scope="system"),
    Row("ifdown", "permissions", dry="--no-act -n", scope="system"),
    Row("nmcli networking|radio off", "permissions", scope="system"),
    Row("nmcli radio all|wifi off", "permissions", scope="system"),
    Row("nmcli device|dev|d|connection|con|c disconnect|down|delete|del", "permissions", scope="system"),
    Row("rfkill block", "permissions", scope="system"),
    Row("tc qdisc add|del|delete|replace|change", "permissions", scope="system", weight="light"),
    # what starts the machine, and its disks
    Row("bootctl remove", "device", scope="system"),
    Row("update-initramfs", "device", needs="-d", scope="system"),
    Row("mokutil", "permissions", needs="--disable-validation --reset --delete", scope="system"),
    Row("nvram", "permissions", needs="-c -d", scope="system"),
    Row("pvcreate|vgcfgrestore", "device", dry="-t --test", scope="system"),
    Row("mdadm", "device", needs="--create -C --remove --stop -S --zero-superblock", scope="system"),
    Row("lvresize", "device", needs="-L=-* --size=-* -l=-*", values="-L --size -l --extents", scope="system"),
    Row("ddrescue * /dev/*", "device", scope="system"),
    Row("nwipe|scrub /dev/*", "device", scope="system"),
    Row("asr restore", "device", "none", needs="--erase -erase", values="--source --target", scope="system"),
    Row("grub-mkconfig|grub2-mkconfig", "overwrite", files=True, named_by="-o --output", values="-o --output"),
    Row("zpool export|offline|remove|detach|split", "device", dry="-n", scope="system"),
    Row("dmsetup remove|remove_all|wipe_table", "device", scope="system"),
    # Windows
    Row("format|format.com [A-Za-z]:*", "device", scope="system"),
    Row("diskpart /s", "device", scope="system"),
    Row("vssadmin|wbadmin delete", "delete", noun="backups", recursive="always", scope="system"),
    Row("wmic shadowcopy delete", "delete", "none", noun="backups", recursive="always", scope="system"),
    Row("reg|reg.exe delete", "delete", "first", noun="registry key", recursive="always", scope="system"),
    Row("reg|reg.exe add *CurrentVersion*Run*", "persist", values="/v /t /d", scope="home"),
    Row("taskkill", "kill", "none", needs="/IM /im //IM", scope="unknown"),
    Row("wmic process|product|useraccount", "kill", needs="delete terminate uninstall", scope="system"),
    Row("wevtutil cl|clear-log", "delete", noun="log", recursive="always", scope="system"),
    Row("bcdedit", "device", needs="/delete /deletevalue /set", scope="system"),
    Row("cipher /w*", "device", scope="system"),
    Row("takeown|icacls", "permissions", files=True, targets="first", recursive="/T /t /R /r"),
    Row("schtasks /create|/delete|/change", "persist", "none", scope="system"),
    Row("sc|net stop|delete", "kill", scope="system"),
    Row("net user|localgroup * *", "persist", scope="system"),
    Row("netsh advfirewall|firewall set", "permissions", scope="system"),
    Row("efibootmgr", "permissions", needs="-B --delete-bootnum -o --bootorder -c --create", scope="system"),
)  # fmt: skip


# Processes.

_SIGNAL = re.compile(r"-(?:\d+|(?:SIG)?[A-Z]{3,}[0-9+-]*)")
_BROAD: Final = word_set(
    """
    python python2 python3 node nodejs java ruby php perl bash sh zsh fish dash ssh sshd docker dockerd containerd code
    chrome google-chrome chromium firefox safari postgres mysqld mongod nginx httpd apache2 redis-server tmux screen
    login npm electron Xorg gnome-shell plasmashell Finder Dock WindowServer systemd-logind
    """
)
"""Names that other work of the user runs under, too."""
_INIT: Final = frozenset({"init", "systemd", "launchd", ".", ".*", "^", "*", ""})


def _kill(call: Call) -> Iterator[Effect]:
    """`-1` after the signal is every process; before any number it is the signal 1 itself."""
    words = list(call.command.args)
    if not words or words[0] in ("-l", "-L", "-0", "--list", "--table", "--help", "--version"):
        return
    if words[0] in ("-s", "-n", "--signal"):
        words = [] if words[1:2] in (["0"], ["EXIT"]) else words[2:]
    elif words[0] != "--" and words[0].startswith("-") and len(words) > 1:
        words = words[1:]
    for word in (word for word in words if word != "--"):
        everything = word in ("-1", "1", "--1") or "*" in word  # `/proc/[0-9]*`
        weight: Weight = "heavy" if everything else "light"
        yield call.effect(
            "kill", word, scope="system" if everything else "unknown", weight=weight, certain=UNKNOWN not in word
        )


_PKILL_VALUES: Final = "-u -U -t -g -G -s -P -F --signal --uid --euid --parent --pgroup --terminal"
_KILLALL_VALUES: Final = "-u -s -o -y -n -Z --signal --user --older-than --younger-than --context"


def _kill_by_name(call: Call) -> Iterator[Effect]:
    """pkill, killall, skill: light for the name of one program, normal for one that others run under as well."""
    words = call.command.args
    if not words or call.wants_help or {"-0", "-l", "--list", "-V"} & set(words):
        return
    named = tuple(word for word in words if not _SIGNAL.fullmatch(word))
    valued = _PKILL_VALUES if call.command.name == "pkill" else _KILLALL_VALUES
    call = call.with_words(named, valued)
    signals = call.options.values("-s", "--signal") if call.command.name == "killall" else call.values("--signal")
    if call.has("-P", "--parent", "-F", "--pidfile") or signals in (["0"], ["EXIT"]):
        return
    user = call.has("-u", "-U", "--user", "--uid", "--euid", "-t", "-G")
    for name in call.operands or ([""] if user else []):
        weight = _weight_of_name(name, user)
        target = "every process" if name == "." else name
        yield call.effect("kill", target, weight=weight, certain=UNKNOWN not in name)


def _weight_of_name(name: str, user: bool) -> Weight:
    plain = name.strip("^$/ ").rpartition("/")[2]
    if user:
        return "normal"
    if plain in _INIT:
        return "heavy"
    return "normal" if plain in _BROAD or len(plain) < 3 or UNKNOWN in name else "light"


# Services and times.


def _crontab(call: Call) -> Iterator[Effect]:
    call = call.with_values("-u -T -x")
    if call.wants_help or call.has("-l", "-V", "-T"):
        return
    has_input = call.command.piped or call.command.stdin is not None or call.command.reads
    if call.operands or call.has("-r", "-e", "-i") or "-" in call.command.args or has_input:
        yield call.effect("persist", "crontab", scope="system" if call.options.values("-u") else "home")


# The kernel, mounts and privileges.


def _mount(call: Call) -> Iterator[Effect]:
    """Mounts over the system's own folders, or their end; a place of one's own is normal work."""
    call = call.with_values("-t -o -O -L -U --types --options --source --target")
    if call.wants_help:
        return
    if call.has("-a", "--all"):
        if call.command.name == "umount":
            yield call.effect("permissions", "/", scope="system", recursive=True)
        return
    for word in call.operands[-1:]:
        for effect in call.on_path("permissions", word, recursive=True):
            if effect.scope == "system" and not effect.target.startswith(("/run/media/", "/dev/")):
                yield effect


def _privilege(call: Call) -> Iterator[Effect]:
    """`sudo -l`, `-v` and `-k` run nothing."""
    first = " ".join(call.command.args[:1])
    if first not in ("-l", "-v", "-k", "-K", "-V", "-h", "--list", "--validate", "--reset-timestamp", "--help"):
        yield call.effect("privilege", scope="system", weight="light")


_NO_NEW_KEY: Final = "-l -y -e -i -R -F -L -B -H -Y -p -c -K -D -s"  # it reads keys, or changes one in place


def _ssh_keygen(call: Call) -> Iterator[Effect]:
    """A new key is harmless where there was none."""
    call = call.with_values("-f -t -b -C -N -P -O")
    for word in [] if call.given(_NO_NEW_KEY) else call.options.values("-f"):
        yield from (effect for effect in call.put(word) if effect.kind == "overwrite")


READERS: Final[Mapping[str, Reader]] = {
    "kill": _kill,
    "ssh-keygen": _ssh_keygen,
    **dict.fromkeys(("pkill", "killall", "skill"), _kill_by_name),
    "crontab": _crontab,
    **dict.fromkeys(("mount", "umount"), _mount),
    **dict.fromkeys(("sudo", "doas", "su", "pkexec", "run0", "gsudo", "sudoedit"), _privilege),
}


# Places that something runs by itself.

_PROFILES: Final = word_set(
    """
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout
    .kshrc .cshrc .tcshrc .login .xinitrc .xprofile .xsession .xsessionrc .config/fish/config.fish .ssh/authorized_keys
    .ssh/authorized_keys2 .ssh/config .ssh/rc .config/nushell/config.nu .pam_environment
    """
)
_HOME_FOLDERS: Final = word_set(
    ".config/autostart .config/systemd .config/fish/conf.d .config/environment.d .local/share/systemd "
    "Library/LaunchAgents Library/LaunchDaemons .bashrc.d .zshrc.d .oh-my-zsh/custom"
)
_SYSTEM_FOLDERS: Final = word_set(
    """
/etc/systemd /etc/init.d /etc/rc.d /etc/init /etc/pam.d /etc/udev /etc/xdg/autostart /etc/sudoers /etc/sudoers.d
/etc/ld.so.preload /etc/ld.so.conf.d /etc/rc.local /etc/environment /etc/bash.bashrc /etc/bashrc /etc/zsh /etc/zshrc
/etc/zprofile /etc/passwd /etc/shadow /etc/group /etc/ssh/sshd_config /etc/modules-load.d /etc/modprobe.d
/var/spool/cron /var/spool/at /var/at /usr/lib/systemd /lib/systemd /usr/local/lib/systemd /Library/LaunchAgents
/Library/LaunchDaemons /System/Library/LaunchDaemons
"""
)
_SYSTEM_NAMES: Final = ("/etc/cron*", "/etc/profile*", "/etc/anacrontab", "/etc/rc?.d/*")
_HOME = re.compile(r"(?:/root|/home/[^/]+|/Users/[^/]+|/var/root)(?=/)")


def persist_place(path: str, world: World) -> Weight | Literal[""]:
    """How much it weighs that a file is written here, since it runs or counts later without being called."""
    if "/.git/hooks/" in path:
        own = inside(path, world.roots)
        return "" if path.endswith(".sample") else "light" if own else "normal"
    below_home = _below_home(path, world.home)
    if below_home in _PROFILES or inside(below_home, _HOME_FOLDERS):
        return "normal"
    system = inside(path, _SYSTEM_FOLDERS) or any(fnmatchcase(path, name) for name in _SYSTEM_NAMES)
    return "normal" if system else ""


def _below_home(path: str, home: str) -> str:
    """A path from the user's home, or from another user's, on; empty elsewhere."""
    if home != "/" and path.startswith(home + "/"):
        return path[len(home) + 1 :]
    found = _HOME.match(path)
    return path[found.end() + 1 :] if found else ""
