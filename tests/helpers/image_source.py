"""Sources for image tests.

tree DIR               a directory with everything a file system can hold
oci DIR [ARCH]         an OCI layout of two layers, the second full of whiteouts and traps
docker FILE            the same as a docker-save tar, one layer a link to another's file
"""
import gzip, hashlib, io, json, os, socket, sys, tarfile


def tree(where):
    root = where.encode()
    os.mkdir(root)
    os.chdir(root)

    def put(name, data=b"x"):
        with open(name, "wb") as f:
            f.write(data)

    put(b"plain", b"hello\n")
    for name in (b"-dash", b"new\nline", b"\xff\xfe\x80raw", "ünï".encode(), b"n" * 255,
                 b"back\\slash", b"tab\there", b" sp ace ", b"quote'\""):
        put(name)
    put(b"empty", b"")
    os.mkdir(b"big")
    for i in range(5000):
        put(b"big/file-%d" % i, b"%d" % (i % 7))
    os.mkdir(b"deep")
    fd = os.open(b"deep", os.O_RDONLY)
    for i in range(30):
        os.mkdir(b"d" * 100, dir_fd=fd)
        sub = os.open(b"d" * 100, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = sub
    leaf = os.open(b"leaf", os.O_WRONLY | os.O_CREAT, dir_fd=fd)
    os.write(leaf, b"leaf")
    os.close(leaf)
    os.close(fd)
    for name, mode in ((b"suid", 0o4755), (b"sgid", 0o2755), (b"none", 0)):
        put(name)
        os.chmod(name, mode)
    os.mkdir(b"sticky")
    os.chmod(b"sticky", 0o1777)
    put(b"owned")
    os.chown(b"owned", 12345, 4000000000)
    os.symlink(b"/nowhere/else", b"dangling")
    os.symlink(b"plain", b"rel")
    os.symlink(b"s" * 4000, b"longlink")
    os.lchown(b"rel", 5, 6)
    os.mkdir(b"sub")
    os.link(b"plain", b"hard1")
    os.link(b"plain", b"sub/hard2")
    os.link(b"rel", b"sub/hardsym", follow_symlinks=False)
    os.mknod(b"chr", 0o20640, os.makedev(1, 3))
    os.mknod(b"blk", 0o60600, os.makedev(259, 70000))
    os.mkfifo(b"fifo", 0o600)
    socket.socket(socket.AF_UNIX).bind("sock")
    with open("sparse", "wb") as f:
        f.seek(1 << 20)
        f.write(b"A" * 10)
        f.seek(300 << 20)
        f.write(b"B" * 5000)
        f.truncate(400 << 20)
    with open("allhole", "wb") as f:
        f.truncate(123456789)
    put(b"large", os.urandom(3 << 20))
    put(b"exact", b"z" * 8192)
    os.setxattr("plain", "user.a", b"1")
    os.setxattr("plain", "user.bin", bytes(range(256)))
    os.setxattr("sub", "trusted.t", b"")
    os.setxattr("exact", "security.foo", b"v" * 300)
    os.setxattr("rel", "trusted.l", b"x", follow_symlinks=False)
    os.setxattr("owned", "trusted.overlay.opaque", b"y")
    os.utime("plain", ns=(1, 1234567890123456789))
    os.utime("exact", ns=(1, -5 * 10**9))
    os.utime("sub", ns=(5, 987654321))


def layer(entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, kind, data in entries:
            i = tarfile.TarInfo(name)
            i.mode, i.mtime = 0o644, 1000
            if kind == "f":
                i.size = len(data)
                t.addfile(i, io.BytesIO(data))
                continue
            i.type = {"d": tarfile.DIRTYPE, "l": tarfile.SYMTYPE, "h": tarfile.LNKTYPE}[kind]
            i.mode = 0o755 if kind == "d" else 0o644
            i.linkname = data
            t.addfile(i)
    return out.getvalue()


LOWER = layer([
    ("a/", "d", ""), ("a/x", "f", b"one"), ("b/", "d", ""), ("b/old", "f", b"old"),
    ("lib", "l", "a"), ("keep", "f", b"k" * 5000), ("hl", "h", "keep"), ("gone", "f", b"gone"),
])
UPPER = layer([
    (".wh.b", "f", b""), ("b/c/d", "f", b"new"),        # removed, then made again
    ("lib/.wh..wh..opq", "f", b""),                     # opaque through a lower link
    (".wh.keep", "f", b""),                             # the target of a hard link
    ("dummy", "f", b""), (".wh.gone", "h", "dummy"),    # a whiteout that is a hard link
    ("x", "l", "/tmp/sbx-evil"), ("x/f", "f", b"evil"), # a link out, and a file through it
    ("../../up", "f", b"up"), ("r", "l", "/../../../etc"),
])
CONFIG = {"Env": ["A=1", "PATH=/bin"], "User": "nobody", "WorkingDir": "/a",
          "Entrypoint": ["/e"], "Cmd": ["sh", "-c", "x y"]}


def config(arch, layers):
    return json.dumps({
        "architecture": arch, "os": "linux", "created": "2024-05-06T07:08:09Z", "config": CONFIG,
        "rootfs": {"type": "layers",
                   "diff_ids": ["sha256:" + hashlib.sha256(x).hexdigest() for x in layers]},
    }).encode()


def oci(where, arch="amd64"):
    os.makedirs(where + "/blobs/sha256")
    kinds = "application/vnd.oci.image."

    def blob(data, kind):
        name = hashlib.sha256(data).hexdigest()
        with open(where + "/blobs/sha256/" + name, "wb") as f:
            f.write(data)
        return {"mediaType": kinds + kind, "digest": "sha256:" + name, "size": len(data)}

    layers = [LOWER, UPPER]
    blobs = [blob(gzip.compress(x, mtime=0), "layer.v1.tar+gzip") for x in layers]
    conf = blob(config(arch, layers), "config.v1+json")
    manifest = blob(json.dumps({"schemaVersion": 2, "config": conf, "layers": blobs}).encode(),
                    "manifest.v1+json")
    with open(where + "/oci-layout", "w") as f:
        f.write('{"imageLayoutVersion":"1.0.0"}')
    with open(where + "/index.json", "w") as f:
        json.dump({"schemaVersion": 2, "manifests": [manifest]}, f)


def docker(where):
    one, two = "1" * 64, "2" * 64
    conf = config("amd64", [LOWER, LOWER, UPPER])
    with tarfile.open(where, "w") as t:
        def add(name, data):
            i = tarfile.TarInfo(name)
            i.size = len(data)
            t.addfile(i, io.BytesIO(data))

        link = tarfile.TarInfo(two + "/layer.tar")
        link.type, link.linkname = tarfile.SYMTYPE, "../" + one + "/layer.tar"
        t.addfile(link)
        add(one + "/layer.tar", LOWER)
        add("3" * 64 + ".tar", gzip.compress(UPPER, mtime=0))
        add("conf.json", conf)
        add("manifest.json", json.dumps([{
            "Config": "conf.json", "RepoTags": ["x:1"],
            "Layers": [one + "/layer.tar", two + "/layer.tar", "3" * 64 + ".tar"]}]).encode())


{"tree": tree, "oci": oci, "docker": docker}[sys.argv[1]](*sys.argv[2:])
