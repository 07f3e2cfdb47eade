"""One state of one case made real: files, ports, cgroups, a network namespace, servers; and all of it removed.

A case lists its servers in the order in which they are started; the last is the one that the URL names. A server's
settings are its own table overlaid with the table of the state. Every text among them, and every template that it
names, may hold `{{setting}}`, `{{setting=default}}` and `{{other.port}}`.
"""

import contextlib
import ctypes
import grp
import http.client
import os
import pwd
import random
import re
import resource
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import defaults
import families
import services

HERE = Path(__file__).resolve().parent
STATES = ("slow", "fixed", "healthy", "low", "middle", "full")
# Flags of a load that says how full the server is to be; `middle` gets half of the rate that it was found to hold.
LEVELS = {"low": ["-c", "4", "-R", "100"], "middle": ["-c", "16"], "full": ["-c", "16"]}
MIDDLE = 0.5
SERVER_CPU, LOAD_CPU = "0", "1"
READY_LIMIT_S = 40
# For programs that take no port beyond 32767.
LOW_PORTS = range(20_000, 32_000)
STOP_LIMIT_S = 3
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 36, 38, 22
SECCOMP_MODE_FILTER = 2
CLONE_NEWNET = 0x40000000
DEFAULT_LOAD = ["-c", "16"]
USERS = ("www-data", "nobody")
UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
LIBC = ctypes.CDLL(None, use_errno=True)
# Settings of a server that need a control group.
LIMITS = ("quota_cores", "memory_limit", "read_limit")
# What stands beside the servers and is none of them.
NEIGHBOURS = ("hog", "reloader", "path")
builds = None

# Program and Debian package of every kind of server.
PROGRAMS = {
    "nginx": ("nginx", "nginx"), "haproxy": ("haproxy", "haproxy"), "apache": ("apache2", "apache2-bin"),
    "lighttpd": ("lighttpd", "lighttpd"), "varnish": ("varnishd", "varnish"),
    "tomcat": ("/usr/share/tomcat10/bin/bootstrap.jar", "tomcat10-common default-jdk-headless"), "node": ("node", "nodejs"),
    "go": ("go", "golang-go"), "python": ("python3", "python3"), "gunicorn": ("gunicorn", "gunicorn"),
    "uwsgi": ("uwsgi", "uwsgi-core uwsgi-plugin-python3"), "php-fpm": ("php-fpm", "php-fpm"),
    "origin": ("python3", "python3"),
    "hog": ("python3", "python3"), "reloader": ("python3", "python3"), "path": ("python3", "python3"), "caddy-default": ("caddy", "caddy"),
    "php-fpm-default": ("php-fpm", "php-fpm"), "log-sink": ("python3", "python3"),
} | {kind: need for kind, need in defaults.NEEDS.items() if kind != "caddy-default"} | families.NEEDS | services.NEEDS


class NotReady(Exception):
    """A server that did not start; the text is what it said."""


def search_path():
    return os.environ.get("PATH", "") + ":/usr/local/go/bin:/usr/sbin:/sbin"


def find(program):
    """Path of a program; Debian's own Python, as another may lie where the servers' user cannot read."""
    if program == "python3" and os.path.exists("/usr/bin/python3"):
        return "/usr/bin/python3"
    if program == "php-fpm":
        # Debian's name holds the version.
        return next((str(path) for path in sorted(Path("/usr/sbin").glob("php-fpm[0-9]*"))), None)
    return program if program.startswith("/") and os.path.exists(program) else shutil.which(program, path=search_path())


def lacking(case):
    """What this machine lacks for a case, in words; empty when nothing."""
    kinds = [server["kind"] for server in case["server"]]
    packages = [PROGRAMS[kind][1] for kind in kinds if not find(PROGRAMS[kind][0])]
    packages += [tool for tool in case.get("tools", []) if not find(tool)]
    wants_root = "netns" in case or any(limit in s for server in case["server"]
                                          for s in (server, server.get("slow", {})) for limit in LIMITS)
    if wants_root and os.geteuid() != 0:
        packages.append("root")
    return " ".join(packages)


def become_reaper():
    """Orphans of what this process starts become its children, not init's."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def use_build_directory(path):
    """Where programs and keys are built once a run."""
    global builds
    builds = Path(path)
    os.chmod(path, 0o755)


def user():
    """The unprivileged user for servers: (name, uid, gid); None when we are not root."""
    if os.geteuid() != 0:
        return None
    for name in USERS:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return name, entry.pw_uid, entry.pw_gid
    return None


def address(settings):
    """Where a server is asked; its own address where it is at the far end of a path."""
    return settings.get("address", "127.0.0.1")


def size_of(text):
    number, unit = re.fullmatch(r"(\d+)([A-Za-z]*)", text).groups()
    return int(number) * UNITS[unit]


def forget(path):
    """Puts a file out of the page cache: its pages belong to the group of whoever reads it next."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def content(what):
    """Bytes of a file: `91KiB text` (compressible), `91KiB random`, with `cold` not in the page cache, `900 lines line #` with
    the line's number for each #, or else the text itself."""
    lines = re.fullmatch(r"(\d+) lines (.+)", what)
    if lines:
        return "".join(lines[2].replace("#", str(n)) + "\n" for n in range(int(lines[1]))).encode()
    match = re.fullmatch(r"(\d+[A-Za-z]*) (text|random)(?: cold)?", what)
    if not match:
        return what.encode()
    size = size_of(match[1])
    source = random.Random(7)
    if match[2] == "random":
        return source.randbytes(size)
    syllables = ["bra", "ken", "tor", "que", "sha", "ft", "spe", "ed", "ste", "am", "val", "ve", "gau", "ge", "drum"]
    words = ["".join(source.choices(syllables, k=source.randint(1, 4))) for _ in range(800)]
    text, length = [], 0
    while length < size:
        # Low ranks are frequent, as in prose.
        text.append(words[int(source.paretovariate(0.7)) % len(words)])
        length += len(text[-1]) + 1
    return " ".join(text).encode()[:size]


def bind_among(one, ports):
    """A socket at the first of some ports that is free."""
    for port in ports:
        with contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return
    raise NotReady("no port is free")


def slot_end(text, begin):
    """Where the slot that begins there ends; the default of a slot may hold slots."""
    depth = 0
    for match in re.compile(r"\{\{|\}\}").finditer(text, begin):
        depth += 1 if match[0] == "{{" else -1
        if depth == 0:
            return match.end()
    raise NotReady(f"a slot is not closed: {text[begin:begin + 40]}")


# ---- processes ----


def processes():
    """(pid, parent, CPU seconds with those of waited-for children) of every process."""
    tick = os.sysconf("SC_CLK_TCK")
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                yield int(entry.name), int(fields[1]), sum(map(int, fields[11:15])) / tick


def descendants(pid):
    """{pid: CPU seconds} of everything below a process."""
    children = {}
    for child, parent, seconds in processes():
        children.setdefault(parent, []).append((child, seconds))
    found, queue = {}, [pid]
    while queue:
        for child, seconds in children.get(queue.pop(), []):
            found[child] = seconds
            queue.append(child)
    return found


def reap():
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def end_all(children):
    """Ends what was started: asked first, then killed; last whatever is still below this process."""
    for child in reversed(children):
        if child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)
    end = time.monotonic() + STOP_LIMIT_S
    while time.monotonic() < end and any(child.poll() is None for child in children):
        time.sleep(0.02)
    end = time.monotonic() + STOP_LIMIT_S
    while time.monotonic() < end:
        reap()
        left = descendants(os.getpid())
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


# ---- cgroups ----


class Cgroup:
    """A group of our own below this process' one, in either layout."""

    def __init__(self, name, settings, directory):
        self.paths = []
        self.joins = []
        try:
            if "quota_cores" in settings:
                self.limit_cpu(name, settings["quota_cores"])
            if "memory_limit" in settings:
                self.limit_memory(name, settings["memory_limit"])
            if "read_limit" in settings:
                self.limit_reads(name, settings["read_limit"], directory)
        except OSError as error:
            self.remove()
            raise NotReady(f"cgroup: {error}") from None

    def limit_cpu(self, name, cores):
        path, unified = self.create("cpu", name)
        quota = int(cores * 100_000)
        if unified:
            (path / "cpu.max").write_text(f"{quota} 100000")
        else:
            (path / "cpu.cfs_period_us").write_text("100000")
            (path / "cpu.cfs_quota_us").write_text(str(quota))

    def limit_memory(self, name, limit):
        path, unified = self.create("memory", name)
        (path / ("memory.max" if unified else "memory.limit_in_bytes")).write_text(str(size_of(limit)))

    def limit_reads(self, name, per_s, directory):
        device = os.stat(directory).st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        if Path("/sys/fs/cgroup/blkio").is_dir():
            path, _ = self.create("blkio", name)
            (path / "blkio.throttle.read_bps_device").write_text(f"{number} {size_of(per_s)}")
        else:
            path, _ = self.create("io", name)
            (path / "io.max").write_text(f"{number} rbps={size_of(per_s)}")

    def create(self, controller, name):
        v1 = Path("/sys/fs/cgroup", controller)
        unified = not v1.is_dir()
        path = (Path("/sys/fs/cgroup") if unified else v1) / name
        if not path.exists():
            if unified:
                (path.parent / "cgroup.subtree_control").write_text(f"+{controller}")
            path.mkdir()
            self.paths.append(path)
        self.joins.append(path / "cgroup.procs")
        return path, unified

    def remove(self):
        """The kernel lets go of the last process a moment after its end."""
        end = time.monotonic() + STOP_LIMIT_S
        for path in self.paths:
            while path.exists() and time.monotonic() < end:
                try:
                    path.rmdir()
                except OSError:
                    time.sleep(0.02)


# ---- a network of its own ----


@contextlib.contextmanager
def network(settings):
    """A network namespace with loopback up and the given sysctls; this process is in it meanwhile."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    if LIBC.unshare(CLONE_NEWNET) != 0:
        os.close(home)
        raise NotReady(f"network namespace: {os.strerror(ctypes.get_errno())}")
    try:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for name, value in settings.items():
            Path("/proc/sys/net/ipv4", name).write_text(str(value))
        yield
    finally:
        LIBC.setns(home, CLONE_NEWNET)
        os.close(home)


# ---- a state of a case ----


class Lab(contextlib.ExitStack):
    """Context: the servers of one state, ready; `url` is what to load."""

    def __init__(self, case, state, prony, keep):
        super().__init__()
        self.case, self.state, self.prony, self.keep = case, state, prony, keep
        self.children, self.logs, self.servers = [], [], {}
        self.neighbours = set()

    def __enter__(self):
        super().__enter__()
        try:
            self.build()
        except (OSError, subprocess.SubprocessError) as error:
            self.close()
            raise NotReady(str(error)) from None
        except BaseException:
            self.close()
            raise
        return self

    def build(self):
        self.dir = Path(tempfile.mkdtemp(prefix=f"prony-truth-{self.case.name}-"))
        self.callback(self.remove_directory)
        if "netns" in self.case.data:
            own = self.case.data[self.state].get("netns", {})
            self.enter_context(network(self.case.data["netns"] | own))
        self.callback(lambda: end_all(self.children))
        self.write_files()
        for server in self.case.data["server"]:
            settings = {key: value for key, value in server.items() if key not in STATES}
            settings |= server.get(self.state, {})
            self.servers[settings.get("name", settings["kind"])] = settings
        self.give_ports()
        for settings in self.servers.values():
            if not settings.get("absent"):
                self.start(settings)
        front = list(self.servers.values())[-1]
        scheme = self.case.data.get("scheme", "http")
        self.path = self.case.data[self.state].get("path", self.case.data.get("path", "/"))
        common = self.case.data.get("load", DEFAULT_LOAD)
        flags = self.case.data[self.state].get("load", [*LEVELS[self.state], *self.case.data.get("headers", [])]
                                               if self.state in LEVELS else common)
        self.load = [self.fill(flag, front) for flag in flags]
        self.url = f"{scheme}://{address(front)}:{front['port']}{self.path}"
        for rule in self.case.data[self.state].get("filter", []):
            subprocess.run([find("iptables"), *self.fill(rule, front).split()], check=True)
        self.wait_for_answer(scheme, front)

    def remove_directory(self):
        if self.keep:
            print(f"kept {self.dir}")
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    def write_files(self):
        site = self.dir / "site"
        site.mkdir()
        for name, what in self.case.data.get("files", {}).items():
            path = site / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content(what))
            if what.endswith(" cold"):
                forget(path)
            if what.startswith("#!"):
                path.chmod(0o755)
        shutil.copytree(HERE / "apps", self.dir / "apps")
        self.dir.chmod(0o755)
        if user():
            for path in (self.dir, *self.dir.rglob("*")):
                os.chown(path, *user()[1:])

    def give_ports(self):
        """Held open together, so that no two are the same."""
        held = []
        for settings in self.servers.values():
            if settings["kind"] == "php-fpm-default":
                settings["socket_path"] = f"{self.dir}/php.sock"
            kind = socket.SOCK_DGRAM if settings.get("udp") else socket.SOCK_STREAM
            held.append(socket.socket(type=kind))
            bind_among(held[-1], LOW_PORTS if settings.get("low_port") else [0])
            settings["port"] = held[-1].getsockname()[1]
        for one in held:
            one.close()

    def fill(self, text, settings):
        """Replaces the slots of a text; values may hold slots themselves."""
        parts = []
        while (begin := text.find("{{")) >= 0:
            end = slot_end(text, begin)
            parts += [text[:begin], self.fill(self.slot(text[begin + 2:end - 2], settings), settings)]
            text = text[end:]
        return "".join([*parts, text])

    def slot(self, slot, settings):
        """What stands for one slot: a setting, another server's setting, a common one, or the default."""
        name, equals, default = slot.partition("=")
        if "." in name:
            server, _, key_of_it = name.partition(".")
            return str(self.servers[server][key_of_it])
        found = settings.get(name, self.common(settings).get(name, default if equals else None))
        if found is None:
            raise NotReady(f"{self.case.name}: nothing fills {{{{{name}}}}}")
        return str(found)

    def common(self, settings):
        who = user()
        own = self.dir / settings.get("name", settings["kind"])
        return {
            "dir": self.dir, "own": own, "user": who[0] if who else "", "group": grp.getgrgid(who[2])[0] if who else "",
            "as_user": "" if who else "#", "prony": self.prony, "build": builds,
        }

    def start(self, settings):
        own = self.common(settings)["own"]
        own.mkdir()
        if user():
            os.chown(own, *user()[1:])
        argv, env, privileged = COMMANDS[settings["kind"]](self, settings, own)
        argv[0] = find(argv[0])
        env |= {key: self.fill(value, settings) for key, value in settings.get("env", {}).items()}
        group = None
        if any(limit in settings for limit in LIMITS):
            name = f"prony-truth-{os.getpid()}-{settings.get('name', settings['kind'])}"
            group = Cgroup(name, settings, self.dir)
            # Removed after the processes have ended, and before the directory.
            self.push_late(group.remove)
        log = self.enter_context(open(own / "output.log", "wb"))
        self.logs.append(own / "output.log")
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=own, env=os.environ | env,
            start_new_session=not settings.get("same_session"), preexec_fn=lambda: prepare(settings, privileged, group),
        )
        self.children.append(child)
        if settings["kind"] in NEIGHBOURS:
            self.neighbours.add(child.pid)
        if "socket_path" in settings:
            self.wait_for_file(child, settings["socket_path"])
        elif settings["kind"] not in NEIGHBOURS and not settings.get("udp"):
            self.wait_for_port(child, settings)

    def key(self, kind):
        """A certificate with its key in one file; its path."""
        return key(kind)

    def push_late(self, undo):
        """Undone after the end of the servers: end_all is safe to be called twice."""
        self.callback(undo)
        self.callback(lambda: end_all(self.children))

    def said(self):
        texts = [f"{path.parent.name}: {path.read_text(errors='replace')[-400:].strip()}" for path in self.logs]
        return " | ".join(text for text in texts if not text.endswith(": "))

    def wait_for_port(self, child, settings):
        end = time.monotonic() + READY_LIMIT_S
        while time.monotonic() < end and child.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection((address(settings), settings["port"]), timeout=1):
                return
            time.sleep(0.03)
        raise NotReady(f"{child.args[0]} did not get ready: {self.said()}")

    def wait_for_file(self, child, path):
        end = time.monotonic() + READY_LIMIT_S
        while time.monotonic() < end and child.poll() is None:
            if os.path.exists(path):
                return
            time.sleep(0.03)
        raise NotReady(f"{child.args[0]} did not get ready: {self.said()}")

    def wait_for_answer(self, scheme, front):
        """Until the URL is answered; a gateway's error only says that its backend is not there yet."""
        end = time.monotonic() + READY_LIMIT_S
        last = "nothing"
        while time.monotonic() < end:
            try:
                status = self.status(scheme, front)
            except (OSError, http.client.HTTPException) as error:
                last = repr(error)
            else:
                if status < 400 or self.case.data.get("answers_errors"):
                    return
                last = f"status {status}"
            time.sleep(0.05)
        raise NotReady(f"{self.url} answered {last}: {self.said()}")

    def status(self, scheme, front):
        where = (address(front), front["port"])
        if scheme == "https":
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            connection = http.client.HTTPSConnection(*where, timeout=5, context=context)
        else:
            connection = http.client.HTTPConnection(*where, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", self.path, headers={"Connection": "close"})
            answer = connection.getresponse()
            answer.read()
            return answer.status

    def cpu_seconds(self):
        """CPU time of all servers of this state."""
        below = descendants(os.getpid())
        return sum(seconds for pid, seconds in below.items() if pid not in self.neighbours)

    def front_cpu_seconds(self):
        """CPU time of the server that the URL names, with its own children."""
        pid = self.children[-1].pid
        return sum(s for p, _, s in processes() if p == pid) + sum(descendants(pid).values())


def filter_calls(rules):
    """A filter before every system call of this process, with so many rules, none of which fits. It looks at an argument:
    by the number alone the kernel would remember what it said (kernel/seccomp.c, seccomp_is_const_allow)."""
    load, jump_if_equal, allow = 0x20, 0x15, (0x06, 0, 0, 0x7FFF0000)
    first_argument = 16
    rows = [(load, 0, 0, first_argument), *((jump_if_equal, 0, 0, 0xFFF00000 + i) for i in range(rules)), allow]
    program = b"".join(struct.pack("HBBI", *row) for row in rows)
    buffer = ctypes.create_string_buffer(program)
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rows), ctypes.addressof(buffer)))
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def prepare(settings, privileged, group):
    """Runs in the child before its program: everything that needs root first."""
    for join in group.joins if group else []:
        join.write_text(str(os.getpid()))
    os.sched_setaffinity(0, {int(cpu) for cpu in settings.get("cpus", SERVER_CPU).split(",")})
    if "nofile" in settings:
        resource.setrlimit(resource.RLIMIT_NOFILE, (settings["nofile"], settings["nofile"]))
    if "nice" in settings:
        os.nice(settings["nice"])
    if "call_filter" in settings:
        filter_calls(settings["call_filter"])
    who = user()
    if who and not privileged:
        os.setgroups([who[2]])
        os.setgid(who[2])
        os.setuid(who[1])


# ---- how each kind is started: (arguments, environment, keeps root to drop it itself) ----


def template(lab, settings, own, default, name):
    """A configuration written from its template; its path."""
    text = (HERE / "configs" / settings.get("config", default)).read_text()
    path = own / name
    path.write_text(lab.fill(text, settings))
    return str(path)


def extra(lab, settings):
    return [lab.fill(str(arg), settings) for arg in settings.get("args", [])]


def nginx(lab, settings, own):
    if "key" in settings:
        settings["pem"] = key(settings["key"])
    return [find("nginx"), "-p", str(own), "-e", str(own / "start.log"), "-c",
            template(lab, settings, own, "nginx.conf", "nginx.conf")], {}, True


def haproxy(lab, settings, own):
    if "key" in settings:
        settings["pem"] = key(settings["key"])
    return [find("haproxy"), "-db", "-f", template(lab, settings, own, "haproxy.cfg", "haproxy.cfg")], {}, True


def apache(lab, settings, own):
    return [find("apache2"), "-DFOREGROUND", "-f",
            template(lab, settings, own, "apache.conf", "apache.conf")], {"APACHE_RUN_DIR": str(own)}, True


def lighttpd(lab, settings, own):
    return [find("lighttpd"), "-D", "-f", template(lab, settings, own, "lighttpd.conf", "lighttpd.conf")], {}, False


def varnish(lab, settings, own):
    vcl = template(lab, settings, own, "varnish.vcl", "default.vcl")
    return [find("varnishd"), "-F", "-j", "none", "-n", str(own / "work"), "-a", f"127.0.0.1:{settings['port']}",
            "-f", vcl, "-s", "malloc,64m", *extra(lab, settings)], {}, False


def tomcat(lab, settings, own):
    for name in ("conf", "webapps/ROOT", "temp", "work", "logs"):
        (own / name).mkdir(parents=True)
    template(lab, settings, own, "tomcat-server.xml", "conf/server.xml")
    shutil.copy(HERE / "configs/tomcat-web.xml", own / "conf/web.xml")
    classes = own / "webapps/ROOT/WEB-INF/classes"
    classes.mkdir(parents=True)
    subprocess.run([find("javac"), "-cp", "/usr/share/tomcat10/lib/servlet-api.jar", "-d", str(classes),
                    str(HERE / "apps/Work.java")], check=True, capture_output=True, text=True)
    for path in (lab.dir / "site").iterdir():
        if path.is_file():
            shutil.copy(path, own / "webapps/ROOT")
    if user():
        for path in own.rglob("*"):
            os.chown(path, *user()[1:])
    home = "/usr/share/tomcat10"
    return [find("java"), *extra(lab, settings), f"-Dcatalina.home={home}", f"-Dcatalina.base={own}",
            f"-Djava.io.tmpdir={own}/temp", "-cp", f"{home}/bin/bootstrap.jar:{home}/bin/tomcat-juli.jar",
            "org.apache.catalina.startup.Bootstrap", "start"], {}, False


def script(interpreter):
    def command(lab, settings, own):
        return [find(interpreter), *[lab.fill(flag, settings) for flag in settings.get("flags", [])],
                str(lab.dir / "apps" / settings["app"]), str(settings["port"]), *extra(lab, settings)], {}, False
    return command


def go(lab, settings, own):
    program = builds / settings["app"].replace(".go", "-go")
    if not program.exists():
        subprocess.run([find("go"), "build", "-o", str(program), settings["app"]], cwd=HERE / "apps", check=True,
                       capture_output=True, text=True, env=os.environ | {"GO111MODULE": "off"})
    return [str(program), str(settings["port"]), *extra(lab, settings)], {}, False


def gunicorn(lab, settings, own):
    return [find("gunicorn"), "--bind", f"127.0.0.1:{settings['port']}", "--chdir", str(lab.dir / "apps"),
            "--log-level=warning", *extra(lab, settings), settings["app"]], {}, False


def uwsgi(lab, settings, own):
    return [find("uwsgi"), "--plugin", "python3", settings.get("socket", "--http-socket"), f"127.0.0.1:{settings['port']}", "--master",
            "--disable-logging", "--wsgi-file", str(lab.dir / "apps" / settings["app"]), *extra(lab, settings)], {}, False


def php_fpm(lab, settings, own):
    return [find("php-fpm"), "-F", "-n", "-y", template(lab, settings, own, "php-fpm.conf", "php-fpm.conf"),
            *extra(lab, settings)], {}, True


def origin(lab, settings, own):
    # A binary below somebody's home is not readable for the servers' user.
    return [lab.prony, "origin", "--listen", f"127.0.0.1:{settings['port']}", *extra(lab, settings)], {}, True


def hog(lab, settings, own):
    return [find("python3"), "-c", "while True: pass"], {}, False


def reloader(lab, settings, own):
    """What writes configurations anew: it asks a server to reload, every so many seconds."""
    return [find("python3"), str(lab.dir / "apps/reload.py"), *extra(lab, settings)], {}, True


def delaying_path(lab, settings, own):
    """A path with a round-trip time, between two addresses of the case's network namespace."""
    settings["socket_path"] = str(own / "ready")
    return [find("python3"), str(lab.dir / "apps/path.py"), settings["socket_path"], *extra(lab, settings)], {}, True


COMMANDS = {
    "nginx": nginx, "haproxy": haproxy, "apache": apache, "lighttpd": lighttpd, "varnish": varnish, "tomcat": tomcat,
    "node": script("node"), "python": script("python3"), "go": go, "gunicorn": gunicorn, "uwsgi": uwsgi,
    "php-fpm": php_fpm, "origin": origin, "hog": hog,
    "reloader": reloader, "path": delaying_path,
} | defaults.COMMANDS | families.COMMANDS | services.COMMANDS


def key(kind):
    """A self-signed certificate with its key in one file, made once a run: `rsa:2048`, `rsa:4096`, `ec`."""
    path = builds / f"{kind.replace(':', '-')}.pem"
    if not path.exists():
        algorithm = ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"] if kind == "ec" else [kind]
        crt, private = path.with_suffix(".crt"), path.with_suffix(".key")
        subprocess.run(["openssl", "req", "-x509", "-nodes", "-newkey", *algorithm, "-days", "2", "-subj",
                        "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", private, "-out", crt],
                       check=True, capture_output=True, text=True)
        path.write_text(crt.read_text() + private.read_text())
        path.chmod(0o644)
    return str(path)
