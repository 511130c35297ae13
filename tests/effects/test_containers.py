"""What container programs destroy."""

import pytest

from effects.cases import outcome

TRIFLE = ["destroy-container:unknown:light"]
LOST = ["destroy-container:unknown"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("docker rm -f web", TRIFLE),
        ("docker rmi me/image", TRIFLE),
        ("docker container prune -f", TRIFLE),
        ("docker image prune -a", TRIFLE),
        ("docker system prune -af", TRIFLE),
        ("docker system prune -a --volumes", LOST),
        ("docker volume rm data", LOST),
        ("podman volume prune -f", LOST),
        ("docker --context remote volume rm data", LOST),
        ("docker compose down", TRIFLE),
        ("docker compose down -v", LOST),
        ("docker compose -f dev.yml down --volumes", LOST),
        ("docker compose -p app --profile all down -v --remove-orphans", LOST),
        ("docker-compose down -v", LOST),
        ("docker-compose -f dev.yml down", TRIFLE),
        ("docker stack rm web", LOST),
        ("podman system reset --force", ["destroy-container:unknown:heavy"]),
        ("docker run -v /:/host alpine", ["privilege:system"]),
        ("docker run --rm -it --privileged --volume=/:/mnt alpine sh", ["privilege:system"]),
        ("docker run -v /var/run/docker.sock:/var/run/docker.sock alpine", ["privilege:system"]),
        ("docker run --mount type=bind,source=/,target=/host alpine", ["privilege:system"]),
        ("docker run --device /dev/sda alpine", ["privilege:system"]),
        ("kind delete cluster", ["destroy-infra:unknown:light"]),
        ("k3d cluster delete dev", ["destroy-infra:unknown:light"]),
        ("minikube delete", ["destroy-infra:unknown:light"]),
        ("vagrant destroy -f", LOST),
        ("colima delete", LOST),
        ("virsh undefine web --remove-all-storage", ["destroy-infra:unknown:heavy"]),
        ("VBoxManage unregistervm web --delete", ["destroy-infra:unknown"]),
        ("qm destroy 100", ["destroy-infra:unknown"]),
        ("lxc delete web --force", ["destroy-infra:unknown:heavy"]),
        ("skopeo delete docker://example.com/a", ["destroy-data:unknown"]),
        # harmless
        ("docker ps -a", []),
        ("docker run --rm alpine echo rm", []),
        ("docker run -v .:/app alpine", []),
        ("docker run -v /etc/localtime:/etc/localtime:ro alpine", []),
        ("docker run -p 80:80 --name rm nginx", []),
        ("docker exec web rm x", []),
        ("docker build -t prune .", []),
        ("docker compose up -d", []),
        ("docker compose -f down.yml up", []),
        ("docker compose logs -f", []),
        ("docker-compose ps", []),
        ("docker compose down --dry-run", []),
        ("docker volume ls", []),
        ("docker images", []),
        ("docker system df", []),
        ("docker stop web", []),
        ("kind get clusters", []),
        ("minikube start", []),
        ("vagrant up", []),
        ("vagrant halt", []),
        ("virsh list --all", []),
        ("VBoxManage list vms", []),
        ("VBoxManage unregistervm web", []),
        ("lxc list", []),
        ("docker rm --help", []),
    ],
)
def test_containers(line: str, expected: list[str]) -> None:
    assert outcome(line) == expected
