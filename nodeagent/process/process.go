// Package process reads what the kernel says of a process in /proc/PID/stat.
package process

import (
	"bytes"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process is what a stat file says of a process. It is zero if the process has ended.
type Process struct {
	Name string
	// Parent is the parent's PID. It is "0" without a parent.
	Parent string
	// Start is when the process began, in ticks since the boot. 0: not known.
	Start uint64
}

// Tick is the kernel's unit of time for programs, on every machine.
const Tick = time.Second / 100

// Read reads a process of a proc file system. os.ReadFile would make twice as many calls of the kernel, and the
// start of a job waits for them.
func Read(proc, pid string) Process {
	fd, err := unix.Open(filepath.Join(proc, pid, "stat"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil { // the process has ended
		return Process{}
	}
	defer func() { _ = unix.Close(fd) }()
	var begin [1024]byte // more than the fields that parse reads
	n, _ := unix.Read(fd, begin[:])
	return parse(begin[:max(n, 0)])
}

// parse reads "17 (name) S 1 ...". A name may have blanks and brackets.
func parse(stat []byte) Process {
	_, text, _ := bytes.Cut(stat, []byte("("))
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return Process{}
	}
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) < 2 {
		return Process{}
	}
	p := Process{Name: string(text[:end]), Parent: fields[1]}
	if len(fields) >= 20 {
		p.Start, _ = strconv.ParseUint(fields[19], 10, 64)
	}
	return p
}

// IsSlurmd reports whether the process has the name of slurmd, or Debian's name for slurmd.
func (p Process) IsSlurmd() bool { return p.Name == "slurmd" || p.Name == "slurmd-wlm" }
