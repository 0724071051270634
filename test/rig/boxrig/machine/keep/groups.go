package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// group is the machine's control group in one hierarchy.
type group struct {
	mount string // of the hierarchy on this machine, such as /sys/fs/cgroup/cpu
	own   string // the folder of this process's group
	path  string // the folder of the machine's group, below own
}

type groups []group

// makeGroups makes a control group below this process's own in each hierarchy.
func makeGroups(name string) (groups, error) {
	owns, err := ownGroups()
	if err != nil {
		return nil, fmt.Errorf("make control groups: %w", err)
	}
	mounts, err := hierarchies()
	if err != nil {
		return nil, fmt.Errorf("make control groups: %w", err)
	}
	var out groups
	for mount, key := range mounts {
		own, ok := owns[key]
		if !ok {
			continue
		}
		g := group{mount: mount, own: filepath.Join(mount, own), path: filepath.Join(mount, own, name)}
		out = append(out, g)
		if err := errors.Join(os.Mkdir(g.path, 0o755), g.inherit()); err != nil {
			return out, fmt.Errorf("make control groups: %w", err)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("make control groups: no hierarchy of version 1 is mounted below /sys/fs/cgroup")
	}
	return out, nil
}

// inherit gives the group its parent's processors, without which nothing may enter it.
func (g group) inherit() error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		data, err := os.ReadFile(filepath.Join(g.own, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(g.path, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// hierarchies returns what identifies each mounted hierarchy in /proc/PID/cgroup.
func hierarchies() (map[string]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	out := map[string]string{}
	for s := bufio.NewScanner(file); s.Scan(); {
		before, after, _ := strings.Cut(s.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 3 || filepath.Dir(left[4]) != "/sys/fs/cgroup" {
			continue
		}
		switch right[0] {
		case "cgroup2":
			out[left[4]] = ""
		case "cgroup":
			var controllers []string
			for option := range strings.SplitSeq(right[2], ",") {
				if !slices.Contains([]string{"rw", "ro", "xattr"}, option) && !strings.HasPrefix(option, "release_agent=") {
					controllers = append(controllers, option)
				}
			}
			slices.Sort(controllers)
			out[left[4]] = strings.Join(controllers, ",")
		}
	}
	return out, nil
}

// ownGroups returns this process's group in each hierarchy.
func ownGroups() (map[string]string, error) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for line := range strings.Lines(string(data)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 {
			controllers := strings.Split(f[1], ",")
			slices.Sort(controllers)
			out[strings.Join(controllers, ",")] = f[2]
		}
	}
	return out, nil
}

// enter moves this process into the groups, so that a child begins there.
func (g groups) enter() error {
	for _, one := range g {
		if err := join(one.path); err != nil {
			return fmt.Errorf("enter %s: %w", one.path, err)
		}
	}
	return nil
}

// leave moves this process back.
func (g groups) leave() {
	for _, one := range g {
		if err := join(one.own); err != nil {
			fmt.Fprintln(os.Stderr, "keep:", err)
		}
	}
}

func join(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644)
}

// arguments say to the machine's first process where its groups are.
func (g groups) arguments() []string {
	var out []string
	for _, one := range g {
		out = append(out, "cgroup:"+one.mount+":"+one.path)
	}
	return out
}

// remove removes the groups with all that were made below them. A group is busy for a
// moment after its last process.
func (g groups) remove() {
	for _, one := range g {
		var err error
		for range 100 {
			if err = removeGroup(one.path); err == nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "keep:", err)
		}
	}
}

func removeGroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, removeGroup(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(err, os.Remove(dir))
}
