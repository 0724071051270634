// Command asnode runs a program that sees some files and folders as only its
// node has them: each FROM is mounted on its TO, for the program and all that it
// starts. A FROM of "tmpfs" is an empty folder. A FROM of "proc=PID" is the proc file
// system of that process's namespace.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "asnode:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	runtime.LockOSThread() // the namespace is this thread's until it becomes the program
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to itself: %w", err)
	}
	for i, arg := range args {
		if arg == "--" && i+1 < len(args) {
			return fmt.Errorf("run %s: %w", args[i+1], syscall.Exec(args[i+1], args[i+1:], os.Environ()))
		}
		from, to, ok := strings.Cut(arg, ":")
		if !ok {
			return fmt.Errorf("argument %q: want FROM:TO", arg)
		}
		if err := mount(from, to); err != nil {
			return fmt.Errorf("mount %s on %s: %w", from, to, err)
		}
	}
	return errors.New("want FROM:TO ... -- /path/of/program")
}

func mount(from, to string) error {
	if from == "tmpfs" {
		return syscall.Mount("none", to, "tmpfs", 0, "mode=755")
	}
	if pid, is := strings.CutPrefix(from, "proc="); is {
		return mountProc(pid, to)
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
	return syscall.Mount(from, to, "", syscall.MS_BIND|syscall.MS_REC, "")
}

// mountProc mounts the proc file system of another process's namespace. A process of
// that namespace must do it. That process has this one's mounts.
func mountProc(pid, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	out, err := exec.Command("nsenter", "-t", pid, "-p", "--", "mount", "-t", "proc", "proc", to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
