package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// initialize makes the machine that it is the first process of, says that it is ready and
// waits for processes without a parent.
func initialize(dir, name string, shows []string) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	root := filepath.Join(dir, "root")
	for _, step := range []func() error{
		func() error { return syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "") },
		func() error { return makeRoot(root, shows) },
		func() error { return makeDevices(filepath.Join(root, "dev")) },
		func() error { return makeFiles(root, name) },
		func() error { return enterRoot(root) },
		func() error { return syscall.Sethostname([]byte(name)) },
		prepareNetwork,
	} {
		if err := step(); err != nil {
			return fmt.Errorf("make machine %s: %w", name, err)
		}
	}
	fmt.Println("ready")
	for range signals {
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || pid <= 0 {
				break
			}
		}
	}
	return nil
}

// makeRoot makes the root folder. Of shows it has the folders under their own names, to
// be read only, and the control groups as its own.
func makeRoot(root string, shows []string) error {
	for _, d := range []string{"usr", "etc/cni/net.d", "etc/alternatives", "var/lib/kubelet/plugins", "var/lib/containerd", "var/lib/cni", "var/lib/dcgm-exporter",
		"var/log/pods", "var/log/containers", "var/tmp", "opt", "run", "tmp", "root", "proc", "sys", "dev"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return err
		}
	}
	mounts := []struct {
		from, to, kind string
		flags          uintptr
	}{
		{root, "", "", syscall.MS_BIND | syscall.MS_REC},
		{"proc", "proc", "proc", 0},
		{"sysfs", "sys", "sysfs", 0},
		{"tmpfs", "sys/fs/cgroup", "tmpfs", 0},
		{"tmpfs", "run", "tmpfs", 0},
		{"tmpfs", "dev", "tmpfs", 0},
	}
	for _, m := range mounts {
		if err := syscall.Mount(m.from, filepath.Join(root, m.to), m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", filepath.Join("/", m.to), err)
		}
	}
	for _, show := range append([]string{"/usr", "/etc/alternatives"}, shows...) {
		if err := makeVisible(root, show); err != nil {
			return fmt.Errorf("show %s: %w", show, err)
		}
	}
	return os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky)
}

// makeVisible mounts a folder of this machine, or a control group: cgroup:TO:FROM.
func makeVisible(root, show string) error {
	if group, ok := strings.CutPrefix(show, "cgroup:"); ok {
		to, from, _ := strings.Cut(group, ":")
		to = filepath.Join(root, to)
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		return syscall.Mount(from, to, "", syscall.MS_BIND, "")
	}
	to := filepath.Join(root, show)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount(show, to, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	return syscall.Mount("", to, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
}

// gpus is how many device files of GPUs a machine has.
const gpus = 8

// makeDevices makes the machine's /dev: what every machine has, and GPUs.
func makeDevices(dev string) error {
	for _, name := range []string{"null", "zero", "random", "urandom", "full", "tty", "kmsg", "fuse", "net/tun"} {
		var info syscall.Stat_t
		if err := syscall.Stat(filepath.Join("/dev", name), &info); errors.Is(err, syscall.ENOENT) {
			continue
		} else if err != nil {
			return fmt.Errorf("read /dev/%s: %w", name, err)
		}
		if err := makeDevice(filepath.Join(dev, name), int(info.Rdev)); err != nil {
			return err
		}
	}
	const major, control = 195, 255 // NVIDIA's driver
	for i := range gpus {
		if err := makeDevice(filepath.Join(dev, fmt.Sprintf("nvidia%d", i)), major<<8|i); err != nil {
			return err
		}
	}
	if err := makeDevice(filepath.Join(dev, "nvidiactl"), major<<8|control); err != nil {
		return err
	}
	for link, to := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, filepath.Join(dev, link)); err != nil {
			return err
		}
	}
	for _, m := range []struct{ name, kind, options string }{{"pts", "devpts", "newinstance,ptmxmode=0666,mode=620,gid=5"}, {"shm", "tmpfs", ""}} {
		to := filepath.Join(dev, m.name)
		if err := errors.Join(os.Mkdir(to, 0o755), syscall.Mount(m.kind, to, m.kind, 0, m.options)); err != nil {
			return fmt.Errorf("mount /dev/%s: %w", m.name, err)
		}
	}
	return os.Mkdir(filepath.Join(dev, "mqueue"), 0o755)
}

func makeDevice(path string, number int) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := syscall.Mknod(path, syscall.S_IFCHR|0o666, number); err != nil {
		return fmt.Errorf("make device %s: %w", path, err)
	}
	return os.Chmod(path, 0o666)
}

// makeFiles makes the links to /usr and the few files of /etc that programs read.
func makeFiles(root, name string) error {
	for _, link := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		to, err := os.Readlink(filepath.Join("/", link))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("the rig needs a machine whose /%s is a link to /usr: %w", link, err)
		}
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run", filepath.Join(root, "var/run")); err != nil {
		return err
	}
	for _, file := range []string{"passwd", "group", "nsswitch.conf", "protocols", "services", "ld.so.cache", "os-release"} {
		if err := copyFile(filepath.Join("/etc", file), filepath.Join(root, "etc", file)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(root, "etc/hostname"), []byte(name+"\n"), 0o644)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// enterRoot makes the folder the root and lets go of this machine's own.
func enterRoot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := syscall.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot into %s: %w", root, err)
	}
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	// A kubelet lets mounts of the node appear in pods and the other way round.
	return syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, "")
}

// prepareNetwork lets the machine route between its pods and its cable.
func prepareNetwork() error {
	if out, err := exec.Command("/usr/sbin/ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("ip link set lo up: %w: %s", err, out)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return err
	}
	// Not there until the kernel has a bridge with a filter.
	err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("1"), 0o644)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
