// Command image writes Quoin's container image without Docker: one OCI archive for each
// architecture, and beside it what is in it (SPDX). With -deb it writes Debian packages. The
// same source gives the same bytes.
//
//	image [-out DIR] [-arch amd64,arm64] [-deb]
//
// It needs mmdebstrap or dpkg-deb, and the cross compiler gcc-aarch64-linux-gnu for arm64 on amd64.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// source is what the image is made of.
type source struct {
	root, version, commit string
	time                  time.Time // of the commit
	release, mirror       string    // of Debian
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	out := flags.String("out", "bin", "folder of the archives, below the repository's")
	archs := flags.String("arch", "amd64,arm64", "architectures, with commas")
	deb := flags.Bool("deb", false, "write Debian packages, for machines without Kubernetes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := find(ctx)
	if err != nil {
		return err
	}
	dir := *out
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(s.root, dir)
	}
	write := s.write
	if *deb {
		write = s.deb
	}
	for arch := range strings.SplitSeq(*archs, ",") {
		path, size, err := write(ctx, dir, arch)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		fmt.Printf("%s: %.1f MB\n", path, float64(size)/1e6)
	}
	return nil
}

// find finds the repository, its release and its commit.
func find(ctx context.Context) (*source, error) {
	s := &source{}
	text := func(name string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	var err error
	if s.root, err = text("git", "rev-parse", "--show-toplevel"); err != nil {
		return nil, err
	}
	if s.commit, err = text("git", "rev-parse", "HEAD"); err != nil {
		return nil, err
	}
	at, err := text("git", "log", "-1", "--format=%ct")
	if err != nil {
		return nil, err
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return nil, err
	}
	s.time = time.Unix(seconds, 0).UTC()
	code, err := os.ReadFile(filepath.Join(s.root, "cmd/version/version.go"))
	if err != nil {
		return nil, err
	}
	number := regexp.MustCompile(`(?m)^const Number = "(.*)"$`).FindSubmatch(code)
	if number == nil {
		return nil, fmt.Errorf("cmd/version/version.go has no Number")
	}
	s.version = string(number[1])
	// Programs that are built here need this machine's C library, or a newer one.
	osRelease, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return nil, err
	}
	name := regexp.MustCompile(`(?m)^VERSION_CODENAME=(\w+)$`).FindSubmatch(osRelease)
	if name == nil {
		return nil, fmt.Errorf("/etc/os-release has no VERSION_CODENAME: build on Debian, or use the Dockerfile")
	}
	s.release = string(name[1])
	mirrors, err := text("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
	s.mirror, _, _ = strings.Cut(mirrors, "\n")
	return s, err
}
