#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/containers/kubernetes.yaml: it is what Kubernetes' schemas allow, and its pods do what they should, as far as podman
plays them: the DaemonSet's template as a pod, and the session by its path, for podman 4.3 knows no subPathExpr."""
# backends: process
# night: process
# mount: none
# timeout: 300
import glob

from podman import *

FILE = f"{CONTAINERS}/kubernetes.yaml"
NODE = f"{SCRATCH}/node"  # paths of a node, below
SCHEMAS = max(glob.glob(f"{KEPT}/kubernetes-*[!w]"), key=os.path.getmtime, default="")  # where scripts/deps puts it


def validate(path):
    """Return (status, what it says)."""
    done = subprocess.run([sys.executable, "-m", "kubernetes_validate", "--strict", path], stdout=subprocess.PIPE, check=False,
                          stderr=subprocess.STDOUT, env=dict(os.environ, PYTHONPATH=SCHEMAS), timeout=LONG)
    return done.returncode, done.stdout.decode()


def schemas():
    status, text = validate(FILE)
    ok("valid", status == 0, text)
    same("all of it", text.count("passed for resource"), 4)
    for what, instead in (("mountPropagation: Bidirectional", "mountPropogation: Bidirectional"),
                          ("privileged: true", "privileged: please"), ("kind: DaemonSet", "kind: DaemonSett"),
                          ("periodSeconds: 15", "periodSeconds: often")):
        write(f"{SCRATCH}/wrong.yaml", read(FILE, "r").replace(what, instead))
        status, text = validate(f"{SCRATCH}/wrong.yaml")
        # A kind that it does not know it only warns of.
        ok(f"control: {instead}", status != 0 or text.count("passed for resource") < 4, text)


def by_kind(kind):
    [found] = [one for one in yaml.safe_load_all(read(FILE, "r")) if one["kind"] == kind]
    return found


def on_node(pod):
    """Its host paths, below a directory of this test."""
    for volume in pod["spec"]["volumes"]:
        if "hostPath" in volume:
            volume["hostPath"]["path"] = NODE + volume["hostPath"]["path"]
    return pod


def save(name, *docs):
    write(f"{SCRATCH}/{name}.yaml", yaml.safe_dump_all(docs))
    return f"{SCRATCH}/{name}.yaml"


def server():
    """The DaemonSet's pod, with process sandboxes: their speed is not what this is about."""
    template = by_kind("DaemonSet")["spec"]["template"]
    config = by_kind("ConfigMap")
    config["data"]["xsbxfs.conf"] = "backend = process\naccel = tcg\nprepare = no\n" + config["data"]["xsbxfs.conf"] + \
        "allow_process = yes\n"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": dict(template["metadata"], name="xsbxfs"), "spec": template["spec"]}
    return save("server", config, on_node(pod))


def client_pods():
    """The init container as a pod, and then the other one, whose volume is made when it is: the kubelet does it in this order."""
    init, pod = on_node(by_kind("Pod")), on_node(by_kind("Pod"))
    [init["spec"]["containers"]] = [init["spec"].pop("initContainers")]
    init["metadata"]["name"] = "init"
    init["spec"]["containers"][0]["env"] = [{"name": "POD_NAME", "value": "agent"}]
    init["spec"]["restartPolicy"] = pod["spec"]["restartPolicy"] = "Never"
    del pod["spec"]["initContainers"]
    [mount] = pod["spec"]["containers"][0]["volumeMounts"]
    path = mount.pop("subPathExpr").replace("$(POD_NAME)", "agent")
    pod["spec"]["volumes"][0]["hostPath"]["path"] += f"/{path}"
    return save("init", init), save("agent", pod), f"{pod['spec']['volumes'][0]['hostPath']['path']}"


def exit_of(podman, name):
    def code():
        status, text = podman("inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", name)
        return status == 0 and text.startswith("exited") and text.split()[1]
    return wait_for(code, 15)


def play(podman, path):
    """Its status says nothing where there is no systemd, whose timers are to start probes."""
    return podman("kube", "play", "--network=none", path)


def pods():
    podman = as_root
    mnt = f"{NODE}/run/sbx/mnt"
    play(podman, server())
    ok("the mount reaches the node", wait_for(lambda: os.path.exists(f"{mnt}/status.json"), 15), podman("logs", "xsbxfs-xsbxfs"))
    for probe in ("startupProbe", "livenessProbe"):
        command = by_kind("DaemonSet")["spec"]["template"]["spec"]["containers"][0][probe]["exec"]["command"]
        same(probe, podman("exec", "xsbxfs-xsbxfs", *command), (0, ""))
    init, agent, session = client_pods()
    status, text = play(podman, agent)
    ok("control: no session, no pod", status != 0 and "no such file" in text, text)
    podman("pod", "rm", "-f", "agent")
    play(podman, init)
    same("the init container", exit_of(podman, "init-session"), "0")
    same("its user's", (os.stat(session).st_uid, os.stat(session).st_mode & 0o777), (12001, 0o700))
    play(podman, agent)
    same("the agent", exit_of(podman, "agent-agent"), "0")
    same("what it printed", podman("logs", "agent-agent")[1], "42\n")
    same("and left", read(f"{session}/stdout"), b"42\n")
    # The pod is replaced: preStop unmounts, and the next one has the session again.
    command = by_kind("DaemonSet")["spec"]["template"]["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    same("preStop", podman("exec", "xsbxfs-xsbxfs", *command)[0], 0)
    ok("unmounted", wait_for(lambda: not mounted(mnt), 15))
    podman("kube", "down", f"{SCRATCH}/server.yaml")
    play(podman, f"{SCRATCH}/server.yaml")
    ok("mounted again", wait_for(lambda: os.path.exists(f"{session}/stdout"), 15), podman("logs", "xsbxfs-xsbxfs"))
    same("what was kept", read(f"{session}/stdout"), b"42\n")
    # Killed, as when it has used up its memory: what is left is dead, and the next start takes it away.
    podman("kill", "xsbxfs-xsbxfs")
    podman("kube", "down", f"{SCRATCH}/server.yaml")
    with raises("dead", errno.ENOTCONN):
        os.listdir(mnt)
    same("the probe does not hang", exit_status(["timeout", "5", "grep", "-q", "sessions", f"{mnt}/status.json"]), 2)
    play(podman, f"{SCRATCH}/server.yaml")
    ok("in its place", wait_for(lambda: os.path.exists(f"{mnt}/status.json"), 15), podman("logs", "xsbxfs-xsbxfs"))
    # SIGTERM unmounts as well; a container that ended by itself podman would start again, as the manifest says.
    podman("pod", "stop", "-t", "20", "xsbxfs")
    ok("unmounted at last", wait_for(lambda: not mounted(mnt), 15))
    podman("kube", "down", f"{SCRATCH}/server.yaml")


def exit_status(command):
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL, timeout=LONG).returncode


if not os.path.isdir(SCHEMAS):
    skip("no schemas of Kubernetes to check with; scripts/deps --suites installs kubernetes-validate with pip")
sys.path.append(SCHEMAS)
import yaml  # noqa: E402

prepare_host()
base()
as_root = Podman(False)


def last():
    as_root.close()


try:
    as_root.build()
    os.makedirs(f"{NODE}/run/sbx")
    main(schemas, pods, last)
finally:
    last()
