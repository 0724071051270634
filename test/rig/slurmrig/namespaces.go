package slurmrig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// threads wait for something to do. They never end, because the kernel kills a program that has a
// Pdeathsig when the thread that started it ends, and Go may have used any thread for that.
var threads struct {
	sync.Mutex
	idle []*thread
}

// thread is one that no other goroutine uses.
type thread struct {
	calls chan func()
	home  []*os.File // the namespaces of this process
}

// onThread calls f on a thread that is in this process's namespaces, and gets back into them after
// it: the namespaces and the root that f gives to its thread are nobody else's. A program that f
// starts keeps them.
func onThread(f func() error) error {
	t, err := takeThread()
	if err != nil {
		return fmt.Errorf("make a thread: %w", err)
	}
	done := make(chan error)
	t.calls <- func() { done <- f() }
	return <-done
}

func takeThread() (*thread, error) {
	threads.Lock()
	defer threads.Unlock()
	if n := len(threads.idle); n > 0 {
		t := threads.idle[n-1]
		threads.idle = threads.idle[:n-1]
		return t, nil
	}
	t, made := &thread{calls: make(chan func())}, make(chan error)
	go t.run(made)
	return t, <-made
}

// run makes the thread, and calls what it is given.
func (t *thread) run(made chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// What others see of this process is the main thread. While it waits, this gets another one.
		defer runtime.UnlockOSThread()
		other := make(chan error)
		go t.run(other)
		made <- <-other
		return
	}
	err := unix.Unshare(unix.CLONE_FS) // a root that threads share stays in its namespace
	for _, name := range []string{"mnt", "net", "uts", "ipc", "pid"} {
		f, e := os.Open("/proc/thread-self/ns/" + name)
		err = errors.Join(err, e)
		t.home = append(t.home, f)
	}
	made <- err
	for call := range t.calls {
		call()
		if t.goHome() != nil {
			continue // nobody takes it any more
		}
		threads.Lock()
		threads.idle = append(threads.idle, t)
		threads.Unlock()
	}
}

func (t *thread) goHome() (err error) {
	for _, f := range t.home {
		err = errors.Join(err, unix.Setns(int(f.Fd()), 0))
	}
	return err
}

// initScript is the first process of the namespaces: it takes over processes whose parents have
// ended, and ends with its input. Only a process of a PID namespace can mount the proc of that. A
// rig's control groups can be removed only after all its other processes have ended.
const initScript = `mount -t proc proc "$0/proc" && echo up && read -r _
[ -z "$1" ] || { kill -9 -1; echo 0 >"${1%/*}/cgroup.procs"; ` + removeGroups + `; }`

// open makes the rig's namespaces.
func (c *Cluster) open(ctx context.Context, conf Config) error {
	c.init = exec.Command("bash", "-c", initScript, c.release.Root()) //nolint:noctx // Stop ends it
	c.init.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Setsid: true}
	input, err := c.init.StdinPipe()
	if err != nil {
		return err
	}
	c.keep = input
	said, err := c.init.StdoutPipe()
	if err != nil {
		return err
	}
	log, err := os.Create(c.path("log/init.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	c.init.Stderr = log
	return onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC); err != nil {
			return fmt.Errorf("make namespaces: %w", err)
		}
		if err := c.mountAll(); err != nil {
			return err
		}
		if err := errors.Join(c.makeDevices(conf.GPUs), unix.Sethostname([]byte("ctl")), loopbackUp()); err != nil {
			return err
		}
		if conf.ControlGroups {
			if err := c.openGroups(ctx); err != nil {
				return err
			}
		}
		if err := c.init.Start(); err != nil {
			return err
		}
		if line, err := bufio.NewReader(said).ReadString('\n'); err != nil {
			return fmt.Errorf("first process: %w: %s%s", err, line, c.Log("init"))
		}
		return c.makeModel(conf.GPUs, conf.Model)
	})
}

// mount is one that a rig has. A folder or file is mounted if kind is "".
type mount struct {
	from, to, kind string
	flags          uintptr
	data           string
}

func (m mount) mount() error {
	if m.kind == "" {
		m.flags |= unix.MS_BIND
	}
	if err := unix.Mount(m.from, m.to, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.from, m.to, err)
	}
	return nil
}

func mountEach(mounts []mount) error {
	for _, m := range mounts {
		if err := m.mount(); err != nil {
			return err
		}
	}
	return nil
}

// mountAll gives the chroot what it has in this rig alone.
func (c *Cluster) mountAll() error {
	root := c.release.Root()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts apart: %w", err)
	}
	err := mountEach([]mount{
		{from: root, to: root},
		{from: c.Dir, to: root + "/etc/slurm"},
		{from: c.path(""), to: root + "/rig"},
		{from: c.path("hosts"), to: root + "/etc/hosts"},
		{from: c.path("tmp"), to: root + "/tmp"},
		{from: "tmpfs", to: root + "/dev", kind: "tmpfs", data: "mode=755"},
		{from: "tmpfs", to: root + "/run", kind: "tmpfs", data: "mode=755"},
	})
	if err != nil {
		return err
	}
	_ = unix.Mount("sysfs", root+"/sys", "sysfs", unix.MS_RDONLY, "") // a container may not have it
	if err := errors.Join(os.Mkdir(root+"/run/slurm", 0o755), os.Mkdir(root+"/dev/pts", 0o755), os.Mkdir(root+"/dev/shm", 0o755),
		os.Symlink("pts/ptmx", root+"/dev/ptmx"), os.Symlink("/proc/self/fd", root+"/dev/fd")); err != nil {
		return err
	}
	return mountEach([]mount{
		{from: "devpts", to: root + "/dev/pts", kind: "devpts", data: "newinstance,ptmxmode=0666,mode=620"},
		{from: "tmpfs", to: root + "/dev/shm", kind: "tmpfs"},
	})
}

// makeDevices makes the devices in /dev. There is no driver behind the devices of the GPUs.
func (c *Cluster) makeDevices(gpus int) error {
	type device struct {
		name         string
		major, minor uint32
	}
	const nvidia = 195
	all := []device{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}, {"nvidiactl", nvidia, 255}}
	for i := range gpus {
		all = append(all, device{fmt.Sprint("nvidia", i), nvidia, uint32(i)})
	}
	mask := unix.Umask(0) // which is this thread's own
	defer unix.Umask(mask)
	for _, d := range all {
		path := filepath.Join(c.release.Root(), "dev", d.name)
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
	}
	return nil
}

// loopbackUp gives the network its loopback. For glibc there is no IPv4 (AI_ADDRCONFIG) where
// 127.0.0.1 is the only address, so there is a second one.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("start loopback: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	set := func(name string, what uint, fill func(*unix.Ifreq) error) {
		request, e := unix.NewIfreq(name)
		if e == nil {
			e = fill(request)
		}
		if e == nil {
			e = unix.IoctlIfreq(fd, what, request)
		}
		err = errors.Join(err, e)
	}
	set("lo", unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP); return nil })
	set("lo:1", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{10, 255, 0, 1}) })
	set("lo:1", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 255}) })
	if err != nil {
		return fmt.Errorf("start loopback: %w", err)
	}
	return nil
}

// makeModel writes the files of NVIDIA's driver that AutoDetect=nvidia reads.
func (c *Cluster) makeModel(gpus int, model string) error {
	if model == "" {
		return nil
	}
	driver, bus := filepath.Join(c.release.Root(), "proc/driver"), filepath.Join(c.release.Root(), "sys/bus")
	err := mountEach([]mount{{from: "tmpfs", to: driver, kind: "tmpfs"}, {from: "tmpfs", to: bus, kind: "tmpfs"}})
	if err != nil {
		return err
	}
	for i := range gpus {
		id := fmt.Sprintf("0000:%02x:00.0", i*16+15)
		files := map[string]string{
			filepath.Join(driver, "nvidia/gpus", id, "information"):       fmt.Sprintf("Model: \t\t %s\nGPU UUID: \t GPU-%08d-1111-2222-3333-444444444444\nBus Type: \t PCIe\nDevice Minor: \t %d\n", model, i, i),
			filepath.Join(bus, "pci/drivers/nvidia", id, "local_cpulist"): "0-1\n",
		}
		for path, text := range files {
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil { //nolint:gosec // no secret
				return err
			}
		}
	}
	return nil
}

// inside calls f on a thread that has entered the given namespaces of the rig.
func (c *Cluster) inside(namespaces int, f func() error) error {
	return onThread(func() error {
		var err error
		gone := c.init.Process.WithHandle(func(handle uintptr) { err = unix.Setns(int(handle), namespaces) })
		if err := errors.Join(gone, err); err != nil {
			return fmt.Errorf("enter rig: %w", err)
		}
		return f()
	})
}

// allNamespaces are all that a rig has.
const allNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWPID

// start starts a command in the rig, which sees further mounts that no other process sees.
func (c *Cluster) start(cmd *exec.Cmd, mounts []string) error {
	return c.inside(allNamespaces, func() error {
		if err := unix.Chroot(c.release.Root()); err != nil {
			return fmt.Errorf("enter rig: %w", err)
		}
		if err := mountOwn(mounts); err != nil {
			return err
		}
		return cmd.Start()
	})
}

// mountOwn mounts each FROM on its TO for this thread and what it starts. A FROM of "tmpfs" is an
// empty folder.
func mountOwn(mounts []string) error {
	if len(mounts) == 0 {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("keep mounts apart: %w", err)
	}
	for _, m := range mounts {
		if err := mountFromTo(m); err != nil {
			return err
		}
	}
	return nil
}

func mountFromTo(s string) error {
	from, to, ok := strings.Cut(s, ":")
	if !ok {
		return fmt.Errorf("mount %q: want FROM:TO", s)
	}
	if from == "tmpfs" {
		return mount{from: "tmpfs", to: to, kind: "tmpfs", data: "mode=755"}.mount()
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else if _, err = os.Stat(to); err != nil {
		if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
			err = os.WriteFile(to, nil, 0o644) //nolint:gosec // as the file that hides it
		}
	}
	if err != nil {
		return err
	}
	return mount{from: from, to: to, flags: unix.MS_REC}.mount()
}
