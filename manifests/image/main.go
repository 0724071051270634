// Command image writes Quoin's container image without Docker: one OCI archive for all
// architectures, and beside it what is in it (SPDX). With -packages it writes Debian packages and
// RPMs. The same commit gives the same bytes. With -push it pushes the image that it has written.
//
//	image [-out DIR] [-arch amd64,arm64] [-packages] [-programs DIR]
//	image [-out DIR] -push REGISTRY/NAME
//
// The image needs mmdebstrap. For arm64 on amd64, both need the cross compiler gcc-aarch64-linux-gnu.
package main

import (
	"context"
	"errors"
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

// source is what images and packages are made of.
type source struct {
	root, version, commit string
	time                  time.Time // of all files
	built                 string    // folder of the programs, if they are built already
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	out := flags.String("out", "bin", "folder of the archives, below the repository's")
	archs := flags.String("arch", "amd64,arm64", "architectures, with commas")
	packages := flags.Bool("packages", false, "write Debian packages and RPMs, for machines without Kubernetes")
	built := flags.String("programs", "", "folder with ARCH/quoin and ARCH/quoin-hook, if they are built already")
	registry := flags.String("push", "", "push the image, which is written already, to `REGISTRY/NAME`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := find(ctx)
	if err != nil {
		return err
	}
	s.built = *built
	dir := *out
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(s.root, dir)
	}
	if *registry != "" {
		return s.push(ctx, dir, *registry)
	}
	write := s.writeImage
	if *packages {
		write = s.writePackages
	}
	paths, err := write(ctx, dir, strings.Split(*archs, ","))
	if err != nil {
		return err
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %.1f MB\n", path, float64(info.Size())/1e6)
	}
	return nil
}

// find finds the source, its release and its commit. SOURCE_DATE_EPOCH counts instead of the
// commit's time, and is necessary for a source without git.
func find(ctx context.Context) (*source, error) {
	module, err := output(ctx, "go", "env", "GOMOD")
	if err != nil {
		return nil, err
	}
	s := &source{root: filepath.Join(filepath.Dir(module), "../..")}
	commit, err := output(ctx, "git", "-C", s.root, "log", "-1", "--format=%H %ct")
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	switch at := ""; {
	case err == nil:
		if s.commit, at, _ = strings.Cut(commit, " "); seconds == "" {
			seconds = at
		}
	case seconds != "":
		s.commit = "unknown"
	default:
		return nil, fmt.Errorf("the time of the source is not known, set SOURCE_DATE_EPOCH: %w", err)
	}
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	s.time = time.Unix(at, 0).UTC()
	code, err := os.ReadFile(filepath.Join(s.root, "cmd/version/version.go"))
	if err != nil {
		return nil, err
	}
	number := regexp.MustCompile(`(?m)^const Number = "(.*)"$`).FindSubmatch(code)
	if number == nil {
		return nil, fmt.Errorf("cmd/version/version.go has no Number")
	}
	s.version = string(number[1])
	return s, nil
}

// output returns what a program prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
