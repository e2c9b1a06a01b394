"""Images of real layers from a description on stdin.

oci DIR[:TAG]            an OCI layout (TAG: latest); an image is added to a layout that exists
docker FILE[:NAME:TAG]   a docker-save archive (x:latest)

A description has one statement on a line, words as the shell splits them ('' and "" and \\), # to
the end of a line. Of the image:

arch NAME | user NAME | workdir DIR | env NAME=VALUE | label NAME=VALUE | entrypoint WORD... | cmd WORD...

Of layers, the lowest first; what follows "layer" is in it, in this order:

layer [gzip|zstd|plain]
tree DIR [PREFIX]        all that is in DIR, with its times, owners, links and xattrs
file PATH TEXT | random PATH SIZE [SEED] | zeros PATH SIZE      SIZE may end in K, M or G
dir PATH | symlink PATH TARGET | link PATH OTHER | fifo PATH | char PATH MAJOR MINOR
whiteout PATH            removes PATH of lower layers
opaque DIR               removes all that lower layers have in DIR
mode OCTAL | owner UID GID | mtime SECONDS | xattr NAME VALUE   of the statement before this; a
                         VALUE that begins with 0x is in hexadecimal
cap NUMBER               likewise: a security.capability that permits NUMBER and makes it effective

Links are not followed and nothing is checked: a hard link may name a file of a lower layer. What is
not said is the same in each run, so the same layer has the same digest in each image.
"""
import hashlib, io, json, os, random, shlex, struct, subprocess, sys, tarfile, tempfile

OCI = "application/vnd.oci.image."
COMPRESS = {"gzip": (["gzip", "-n", "-3"], "layer.v1.tar+gzip"),
            "zstd": (["zstd", "-q", "-3"], "layer.v1.tar+zstd"),
            "plain": (["cat"], "layer.v1.tar")}


def size_of(word):
    unit = {"K": 10, "M": 20, "G": 30}.get(word[-1])
    return int(word[:-1]) << unit if unit else int(word)


class Random(io.RawIOBase):
    """SIZE bytes that do not compress, the same for the same seed, never all in memory."""

    def __init__(self, size, seed):
        self.left, self.source = size, random.Random(seed)

    def read(self, n=-1):
        n = self.left if n < 0 else min(n, self.left)
        self.left -= n
        return self.source.randbytes(n)


class Zeros(Random):
    def read(self, n=-1):
        n = self.left if n < 0 else min(n, self.left)
        self.left -= n
        return bytes(n)


def pax(info, xattrs):
    """The extended header that INFO needs, or none. Values are bytes as they are, as Docker does."""
    records = {"SCHILY.xattr." + name: value for name, value in xattrs.items()}
    for key, text in (("path", info.name), ("linkpath", info.linkname)):
        if len(os.fsencode(text)) > 100 or not text.isascii():
            records[key] = os.fsencode(text)
    for key in ("uid", "gid", "size"):
        if getattr(info, key) >= 8 ** (11 if key == "size" else 7):
            records[key] = b"%d" % getattr(info, key)
    out = b""
    for key, value in records.items():
        body = b" %s=%s\n" % (key.encode(), value)
        n = len(body)
        while n != len(body) + len(str(n)):
            n = len(body) + len(str(n))
        out += str(n).encode() + body
    return out, records


class Layer:
    """A tar archive in a temporary file. An entry is written when the next one begins."""

    def __init__(self, compress):
        self.compress = compress
        self.file = tempfile.TemporaryFile()
        self.tar = tarfile.open(fileobj=self.file, mode="w", format=tarfile.USTAR_FORMAT)
        self.info = None

    def add(self, path, kind, data=None, size=0, link="", mode=0o644):
        self.flush()
        self.info, self.data, self.xattrs = tarfile.TarInfo(path), data, {}
        self.info.type, self.info.size, self.info.linkname = kind, size, link
        self.info.mode, self.info.mtime = mode, 1000000000

    def flush(self):
        i, self.info = self.info, None
        if not i:
            return
        header, records = pax(i, self.xattrs)
        if header:
            x = tarfile.TarInfo("PaxHeaders/" + os.path.basename(i.name)[:50])
            x.type, x.size = tarfile.XHDTYPE, len(header)
            # Its name is only for people; what is not ASCII is in the records.
            x.name = x.name.encode("ascii", "replace").decode()
            self.tar.addfile(x, io.BytesIO(header))
            i.name = os.fsencode(i.name)[:100].decode("ascii", "replace")
            i.linkname = os.fsencode(i.linkname)[:100].decode("ascii", "replace")
            for key in ("uid", "gid"):
                if key in records:
                    setattr(i, key, 0)
        self.tar.addfile(i, self.data)

    def tree(self, top, prefix=""):
        seen = {}
        for where, dirs, files in os.walk(top):
            dirs.sort()
            below = os.path.relpath(where, top)
            names = files + [d for d in dirs if os.path.islink(os.path.join(where, d))]
            if below != ".":
                self.copy(where, os.path.join(prefix, below), seen)
            for name in sorted(names):
                path = os.path.join(where, name)
                self.copy(path, os.path.normpath(os.path.join(prefix, below, name)), seen)

    def copy(self, path, name, seen):
        st = os.lstat(path)
        if st.st_ino in seen:
            self.add(name, tarfile.LNKTYPE, link=seen[st.st_ino])
            return
        i = self.tar.gettarinfo(path, name)
        if not i:  # a socket
            return
        if i.type == tarfile.LNKTYPE:
            i.type, i.linkname, i.size = tarfile.REGTYPE, "", st.st_size
        if st.st_nlink > 1 and not os.path.isdir(path):
            seen[st.st_ino] = name
        self.flush()
        self.data = open(path, "rb") if i.isreg() else None
        i.mtime, i.uname, i.gname = int(i.mtime), "", ""
        self.info = i
        self.xattrs = {x: os.getxattr(path, x, follow_symlinks=False)
                       for x in os.listxattr(path, follow_symlinks=False)}
        self.flush()
        if i.isreg():
            self.data.close()

    def close(self):
        self.flush()
        self.tar.close()

    def save(self, open_out):
        """Compresses into the file open_out() gives. Returns diff_id, digest, size, file's name."""
        self.file.seek(0)
        diff = hashlib.sha256()
        for block in iter(lambda: self.file.read(1 << 20), b""):
            diff.update(block)
        # The child reads through the same description.
        os.lseek(self.file.fileno(), 0, os.SEEK_SET)
        with open_out() as out:
            subprocess.run(COMPRESS[self.compress][0], stdin=self.file, stdout=out, check=True)
            out.seek(0)
            digest = hashlib.sha256()
            for block in iter(lambda: out.read(1 << 20), b""):
                digest.update(block)
            return diff.hexdigest(), digest.hexdigest(), out.tell(), out.name


def capability(number):
    low, high = (1 << number) & 0xffffffff, (1 << number) >> 32
    return struct.pack("<5I", 0x02000001, low, 0, high, 0)


def statement(layer, word, args):
    if word == "tree":
        layer.tree(*args)
    elif word == "file":
        data = args[1].encode()
        layer.add(args[0], tarfile.REGTYPE, io.BytesIO(data), len(data))
    elif word in ("random", "zeros"):
        size = size_of(args[1])
        source = {"random": Random, "zeros": Zeros}[word](size, args[2] if len(args) > 2 else args[0])
        layer.add(args[0], tarfile.REGTYPE, source, size)
    elif word == "dir":
        layer.add(args[0], tarfile.DIRTYPE, mode=0o755)
    elif word == "symlink":
        layer.add(args[0], tarfile.SYMTYPE, link=args[1], mode=0o777)
    elif word == "link":
        layer.add(args[0], tarfile.LNKTYPE, link=args[1])
    elif word == "fifo":
        layer.add(args[0], tarfile.FIFOTYPE)
    elif word == "char":
        layer.add(args[0], tarfile.CHRTYPE)
        layer.info.devmajor, layer.info.devminor = int(args[1]), int(args[2])
    elif word == "whiteout":
        layer.add(os.path.join(os.path.dirname(args[0]), ".wh." + os.path.basename(args[0])),
                  tarfile.REGTYPE)
    elif word == "opaque":
        layer.add(os.path.join(args[0], ".wh..wh..opq"), tarfile.REGTYPE)
    elif word == "mode":
        layer.info.mode = int(args[0], 8)
    elif word == "owner":
        layer.info.uid, layer.info.gid = int(args[0]), int(args[1])
    elif word == "mtime":
        layer.info.mtime = int(args[0])
    elif word == "xattr":
        value = args[1]
        layer.xattrs[args[0]] = bytes.fromhex(value[2:]) if value.startswith("0x") else value.encode()
    elif word == "cap":
        layer.xattrs["security.capability"] = capability(int(args[0]))
    else:
        sys.exit("oci_build: unknown statement '%s'" % word)


def read(lines):
    """The description: the image's architecture, its config and its layers."""
    arch, conf, layers = "amd64", {"Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]}, []
    for line in lines:
        words = shlex.split(line, comments=True)
        if not words:
            continue
        word, args = words[0], words[1:]
        if word == "arch":
            arch = args[0]
        elif word in ("user", "workdir"):
            conf[{"user": "User", "workdir": "WorkingDir"}[word]] = args[0]
        elif word == "env":
            conf["Env"] += args
        elif word == "label":
            conf.setdefault("Labels", {}).update(a.split("=", 1) for a in args)
        elif word in ("entrypoint", "cmd"):
            conf[word.capitalize()] = args
        elif word == "layer":
            layers.append(Layer(args[0] if args else "gzip"))
        else:
            statement(layers[-1], word, args)
    for layer in layers:
        layer.close()
    return arch, conf, layers


def config(arch, conf, diffs):
    return json.dumps({
        "architecture": arch, "os": "linux", "created": "2024-05-06T07:08:09Z", "config": conf,
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + d for d in diffs]},
        "history": [{"created_by": "layer %d" % n} for n in range(len(diffs))],
    }).encode()


def oci(where, arch, conf, layers):
    where, _, tag = where.partition(":")
    blobs = where + "/blobs/sha256/"
    os.makedirs(blobs, exist_ok=True)

    def blob(data, kind):
        name = hashlib.sha256(data).hexdigest()
        with open(blobs + name, "wb") as f:
            f.write(data)
        return {"mediaType": OCI + kind, "digest": "sha256:" + name, "size": len(data)}

    diffs, found = [], []
    for layer in layers:
        diff, digest, size, name = layer.save(lambda: tempfile.NamedTemporaryFile(
            dir=blobs, delete=False))
        os.chmod(name, 0o644)
        os.rename(name, blobs + digest)
        diffs.append(diff)
        found.append({"mediaType": OCI + COMPRESS[layer.compress][1],
                      "digest": "sha256:" + digest, "size": size})
    conf = blob(config(arch, conf, diffs), "config.v1+json")
    manifest = blob(json.dumps({"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json",
                                "config": conf, "layers": found}).encode(), "manifest.v1+json")
    manifest["platform"] = {"architecture": arch, "os": "linux"}
    manifest["annotations"] = {"org.opencontainers.image.ref.name": tag or "latest"}
    others = []
    if os.path.exists(where + "/index.json"):
        with open(where + "/index.json") as f:
            others = [m for m in json.load(f)["manifests"]
                      if m["annotations"] != manifest["annotations"]]
    with open(where + "/oci-layout", "w") as f:
        f.write('{"imageLayoutVersion":"1.0.0"}')
    with open(where + "/index.json", "w") as f:
        json.dump({"schemaVersion": 2, "manifests": others + [manifest]}, f)


def docker(where, arch, conf, layers):
    where, _, name = where.partition(":")
    diffs, names = [], []
    with tarfile.open(where, "w") as t:
        def add(path, size, f):
            i = tarfile.TarInfo(path)
            i.size = size
            t.addfile(i, f)

        for layer in layers:
            with tempfile.NamedTemporaryFile() as f:
                diff, _, size, _ = layer.save(lambda: os.fdopen(os.dup(f.fileno()), "w+b"))
                f.seek(0)
                diffs.append(diff)
                if diff + ".tar" not in names:
                    add(diff + ".tar", size, f)
                names.append(diff + ".tar")
        data = config(arch, conf, diffs)
        conf_name = hashlib.sha256(data).hexdigest() + ".json"
        add(conf_name, len(data), io.BytesIO(data))
        data = json.dumps([{"Config": conf_name, "RepoTags": [name or "x:latest"],
                            "Layers": names}]).encode()
        add("manifest.json", len(data), io.BytesIO(data))


{"oci": oci, "docker": docker}[sys.argv[1]](sys.argv[2], *read(sys.stdin))
