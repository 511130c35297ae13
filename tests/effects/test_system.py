"""What programs do to processes, services, users and the system, command by command."""

import shlex

import pytest

from billhook.effects.effect import UNKNOWN, Command
from billhook.effects.families import effects_of_command
from billhook.effects.families.system import persist_place
from effects.world import PROJECT, world


def run(command: str, *, piped: bool = False) -> str:
    """The effects as `kind:scope:weight`."""
    here = world()
    name, *args = shlex.split(command.replace("$X", UNKNOWN))
    call = Command(name, tuple(args), PROJECT, text=command, piped=piped)
    found = [f"{e.kind}:{e.scope}:{e.weight}" for e in effects_of_command(call, here, here.scopes)]
    return " ".join(dict.fromkeys(found))


CHANGES = """
kill 1234 | kill:unknown:light
kill -9 1234 5678 | kill:unknown:light
kill -TERM %1 | kill:unknown:light
kill -9 $X | kill:unknown:light
kill -1 1234 | kill:unknown:light
kill -9 -1 | kill:system:heavy
kill -KILL -- -1 | kill:system:heavy
kill -s KILL -1 | kill:system:heavy
kill -- -1 | kill:system:heavy
kill -9 1 | kill:system:heavy
kill -9 -1 --help | kill:system:heavy kill:unknown:light
kill -9 -1234 | kill:unknown:light
pkill my-server | kill:unknown:light
pkill -f 'uvicorn app.main:app' | kill:unknown:light
pkill -9 -f vite | kill:unknown:light
pkill -f python | kill:unknown:normal
pkill -9 node | kill:unknown:normal
pkill -f node -KILL | kill:unknown:normal
pkill -f . | kill:unknown:heavy
pkill -u me | kill:unknown:normal
pkill -KILL -u root | kill:unknown:normal
pkill systemd | kill:unknown:heavy
killall node | kill:unknown:normal
killall -9 my-server | kill:unknown:light
killall -g node | kill:unknown:normal
killall -u me | kill:unknown:normal
killall -s USR1 nginx | kill:unknown:normal
killall5 -9 | kill:system:heavy
skill -KILL -u me | kill:unknown:normal
fuser -k 3000/tcp | kill:unknown:light
fuser -km / | kill:unknown:normal
shutdown -h now | kill:system:heavy
shutdown | kill:system:heavy
reboot -f | kill:system:heavy
halt | kill:system:heavy
poweroff | kill:system:heavy
init 0 | kill:system:heavy
telinit 6 | kill:system:heavy
systemctl poweroff | kill:system:heavy
systemctl reboot -i | kill:system:heavy
systemctl isolate rescue.target | kill:system:heavy
systemctl stop postgresql | kill:system:normal
systemctl restart nginx | kill:system:light
systemctl start nginx | persist:system:light
systemctl enable --now evil.service | persist:system:normal
systemctl --user enable evil.service | persist:home:normal
systemctl disable ufw | persist:system:normal
systemctl mask auditd | persist:system:normal
service ssh stop | kill:system:normal
service nginx restart | kill:system:light
update-rc.d x defaults | persist:system:normal
launchctl load ~/Library/LaunchAgents/x.plist | persist:home:normal
launchctl bootout gui/501/x | kill:home:normal
crontab -r | persist:home:normal
crontab jobs.txt | persist:home:normal
crontab - | persist:home:normal
crontab -e | persist:home:normal
crontab -u root jobs.txt | persist:system:normal
at now + 1 minute | persist:home:normal
at -f job.sh midnight | persist:home:normal
batch | persist:home:normal
atrm 3 | kill:home:light
systemd-run --on-calendar=daily ./x | persist:system:normal
useradd -m evil | persist:system:normal
userdel -r me | persist:system:normal
usermod -aG sudo me | persist:system:normal
groupdel staff | persist:system:normal
passwd root | persist:system:normal
chpasswd | persist:system:normal
visudo | persist:system:normal
iptables -F | permissions:system:normal
iptables -t nat --flush | permissions:system:normal
iptables -P INPUT ACCEPT | permissions:system:normal
ip6tables -A INPUT -j DROP | permissions:system:normal
nft flush ruleset | permissions:system:normal
ufw disable | permissions:system:normal
ufw --force reset | permissions:system:normal
firewall-cmd --permanent --add-port=22/tcp | permissions:system:normal
setenforce 0 | permissions:system:normal
sysctl -w kernel.randomize_va_space=0 | permissions:system:normal
sysctl vm.swappiness=1 | permissions:system:normal
modprobe -r nvme | permissions:system:normal
rmmod nvme | permissions:system:normal
umount -a | permissions:system:normal
umount -lf / | permissions:system:normal
mount -o remount,rw / | permissions:system:normal
mount --bind /tmp/x /etc | permissions:system:normal
ip link set eth0 down | permissions:system:normal
ip route flush table main | permissions:system:normal
timedatectl set-time 10:00 | persist:system:normal
hostnamectl set-hostname x | persist:system:normal
sudo ls | privilege:system:light
sudo rm --help | privilege:system:light
doas ls | privilege:system:light
su - | privilege:system:light
"""

HARMLESS = """
kill -l
kill -0 1234
kill -s 0 1234
kill
kill --help
pkill --help
pkill -0 node
pgrep -f node
pkill -P 1234
pkill
killall -l
fuser 3000/tcp
shutdown -c
shutdown --help
reboot --help
init
systemctl status nginx
systemctl list-units
systemctl is-enabled ssh
systemctl cat nginx
systemctl show -p MainPID nginx
systemctl --user daemon-reload
systemctl
service --status-all
service nginx status
launchctl list
launchctl print gui/501
crontab -l
crontab -u me -l
crontab
at -l
atq
systemd-run --user --scope ./x
passwd -S me
passwd --help
chage -l me
visudo -c
useradd --help
iptables -L -n
iptables -S
iptables-save
nft list ruleset
ufw status verbose
ufw --dry-run disable
firewall-cmd --list-all
getenforce
setenforce 1
sysctl -a
sysctl net.ipv4.ip_forward
modprobe -n -r x
lsmod
mount
mount -l
mount /dev/sdb1 /mnt/usb
umount /mnt/usb
umount /tmp/x
ip link
ip addr show
ip route
hostnamectl
hostnamectl status
timedatectl
sudo -l
sudo --help
firewall-cmd --get-default-zone
sudo -v
sudo -k
history -c
unset HISTFILE
echo shutdown now
nohup ./server
disown
id
who
uptime
ps aux
"""


@pytest.mark.parametrize(
    ("command", "expected"), [line.rpartition(" | ")[::2] for line in CHANGES.strip().splitlines()]
)
def test_what_it_does(command: str, expected: str) -> None:
    assert run(command) == expected


@pytest.mark.parametrize("command", HARMLESS.strip().splitlines())
def test_harmless(command: str) -> None:
    assert run(command) == ""


def test_a_crontab_from_a_pipe() -> None:
    assert run("crontab", piped=True) == "persist:home:normal"


LASTING = """
/home/me/.bashrc /home/me/.zshrc /home/me/.profile /home/me/.bash_profile /home/me/.zprofile /root/.bashrc
/home/me/.config/fish/config.fish /home/me/.config/fish/conf.d/x.fish /home/me/.ssh/authorized_keys /home/me/.ssh/config
/home/other/.ssh/authorized_keys /home/me/.config/autostart/x.desktop /home/me/.config/systemd/user/x.service
/home/me/Library/LaunchAgents/x.plist /Library/LaunchDaemons/x.plist /etc/crontab /etc/cron.d/x /etc/cron.daily/x
/etc/systemd/system/x.service /etc/init.d/x /etc/profile /etc/profile.d/x.sh /etc/sudoers /etc/sudoers.d/x
/var/spool/cron/crontabs/me /etc/ld.so.preload /etc/passwd /home/me/other/.git/hooks/pre-commit
"""
PASSING = """
/home/me/.bash_history /home/me/.config/app.toml /home/me/.ssh/known_hosts /home/me/notes.txt /etc/hosts /tmp/.bashrc
/home/me/proj/.bashrc /home/me/proj/src/a.py /home/me/proj/.git/hooks/pre-commit.sample /home/me/proj/etc/cron.d/x
/home/me/.bashrc.bak /etc/systemd-x /home/me/proj/.git/config
"""


@pytest.mark.parametrize("path", LASTING.split())
def test_places_that_last(path: str) -> None:
    assert persist_place(path, world()) == "normal"


@pytest.mark.parametrize("path", PASSING.split())
def test_other_places(path: str) -> None:
    assert persist_place(path, world()) == ""


def test_hooks_of_the_project_are_light() -> None:
    assert persist_place(f"{PROJECT}/.git/hooks/pre-commit", world()) == "light"
