// Command keep makes a machine of namespaces and keeps it until its standard input ends:
// then it kills every process of the machine and removes its control groups and its
// folder. It is no child of a terminal, so it outlives the test that started it by that
// much.
//
// The machine's first process is this program too ("init"). It has a root folder of its
// own with this machine's /usr, and devices, control groups and a network of its own.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	var err error
	switch {
	case len(os.Args) >= 4 && os.Args[1] == "init":
		err = initialize(os.Args[2], os.Args[3], os.Args[4:])
	case len(os.Args) >= 3:
		err = keep(os.Args[1], os.Args[2], os.Args[3:])
	default:
		err = errors.New("want DIR NAME and folders")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "keep:", err)
		os.Exit(1)
	}
}

// keep makes the machine in dir, which has the folders of this machine that shows lists,
// prints its first process and removes it when the input ends.
func keep(dir, name string, shows []string) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	groups, err := makeGroups(fmt.Sprintf("quoin-box-%d-%s", os.Getpid(), name))
	defer func() {
		groups.remove()
		removeFolder(dir)
	}()
	if err != nil {
		return err
	}
	cmd, ready, err := start(groups, append([]string{"init", dir, name}, shows...))
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	line, err := bufio.NewReader(ready).ReadString('\n')
	if err != nil {
		return fmt.Errorf("start machine %s: %w", name, errors.Join(err, cmd.Process.Kill()))
	}
	fmt.Println(cmd.Process.Pid, strings.TrimSpace(line))
	input := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(input)
	}()
	select {
	case <-ended:
	case <-input:
	}
	_ = cmd.Process.Kill() // it may have ended; the others of its PID namespace end with it
	<-ended
	return nil
}

// start starts the machine's first process in its control groups. Its output says when
// the machine is ready.
func start(groups groups, args []string) (*exec.Cmd, io.Reader, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	if err := groups.enter(); err != nil {
		return nil, nil, err
	}
	defer groups.leave()
	cmd := exec.Command(self, append(args, groups.arguments()...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
		syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWCGROUP}
	ready, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return cmd, ready, cmd.Start()
}

// removeFolder removes the machine's folder. Mounts in it end a moment after the last
// process that saw them.
func removeFolder(dir string) {
	for range 100 {
		if os.RemoveAll(dir) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Fprintln(os.Stderr, "keep: cannot remove", filepath.Clean(dir))
}
