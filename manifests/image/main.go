// Command image writes the parts of a release: the container image without Docker, as one OCI archive for
// all architectures; Debian packages and RPMs; archives of the programs, the chart and the plain YAML; what
// is in image and packages (SPDX); and SHA256SUMS of everything in the folder. The same commit and the same
// Go give the same bytes. With -push it pushes the image that it has written.
//
//	image [-out DIR] [-arch amd64,arm64] [-programs DIR] [-fresh] image|packages|programs|chart|manifests|sums...
//	image [-out DIR] -push REGISTRY/NAME
//
// The image needs mmdebstrap. For arm64 on amd64, the programs need the cross compiler gcc-aarch64-linux-gnu.
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
	"slices"
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
	built                 string    // folder of ARCH/quoin and ARCH/quoin-hook
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	out := flags.String("out", "bin", "folder of the archives, below the repository's")
	archs := flags.String("arch", "amd64,arm64", "architectures, with commas")
	fresh := flags.Bool("fresh", false, "remove what is in the folder first")
	built := flags.String("programs", "", "folder with ARCH/quoin and ARCH/quoin-hook, if they are built already")
	registry := flags.String("push", "", "push the image, which is written already, to `REGISTRY/NAME`")
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
	if *registry != "" {
		return s.push(ctx, dir, *registry)
	}
	if flags.NArg() == 0 {
		return errors.New("say which parts: image, packages, programs, chart, manifests, sums")
	}
	if *fresh {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return s.write(ctx, dir, *built, strings.Split(*archs, ","), flags.Args())
}

// write writes parts of a release into a folder. It builds the programs once, if they are not built yet.
func (s *source) write(ctx context.Context, dir, built string, archs, parts []string) (err error) {
	work, err := os.MkdirTemp("", "quoin-release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	needed := slices.ContainsFunc(parts, func(part string) bool { return slices.Contains([]string{"image", "packages", "programs"}, part) })
	if s.built = built; built == "" && needed {
		s.built = filepath.Join(work, "programs")
		if err := s.build(ctx, archs); err != nil {
			return err
		}
	}
	for _, part := range parts {
		paths, err := s.part(ctx, part, dir, work, archs)
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		for _, path := range paths {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			fmt.Printf("%s: %.1f MB\n", path, float64(info.Size())/1e6)
		}
	}
	return nil
}

// part writes one part, and returns the paths of its files.
func (s *source) part(ctx context.Context, part, dir, work string, archs []string) (paths []string, err error) {
	switch part {
	case "image":
		return s.writeImage(ctx, dir, work, archs)
	case "packages":
		return s.writePackages(dir, work, archs)
	case "programs":
		return s.writePrograms(dir, archs)
	case "chart":
		return s.writeChart(dir)
	case "manifests":
		return s.writeManifests(dir)
	case "sums":
		return writeSums(dir)
	default:
		return nil, errors.New("no such part of a release")
	}
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
