// Command run builds what the tests run, and then runs tests by gotestsum. It lends API servers to them.
//
//	run -setup [box]
//	run [FLAG...] PACKAGE...
//
// FLAG is one of go test. With box it builds what the box runs too.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"github.com/quoin-hpc/quoin/test/rig/boxrig"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/images"
	"github.com/quoin-hpc/quoin/test/rig/ibrig"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/lldprig"
	"github.com/quoin-hpc/quoin/test/rig/modules"
	"github.com/quoin-hpc/quoin/test/rig/packagerig"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/promrig"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	fmt.Println("== what the tests run: a real Slurm, Kubernetes, Prometheus, ibnetdiscover, lldpd and rpm (the first time ten minutes on two cores)")
	for _, p := range parts() {
		dir, err := p.build(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", p.name, dir)
	}
	if len(args) > 0 && args[0] == "-setup" {
		if slices.Contains(args, "box") {
			return boxrig.Build(ctx)
		}
		return nil
	}
	fmt.Println("== this repository's programs, and the tests (the first time six minutes on two cores)")
	if err := programs.BuildAll(ctx); err != nil {
		return err
	}
	program, err := runner.Folder(ctx)
	if err != nil {
		return err
	}
	// Most tests on real parts wait for most of their time, so more run at once than there are cores. A tenth of
	// the processor time of all tests would go into collecting garbage.
	cores := runtime.GOMAXPROCS(0)
	gotestsum := []string{filepath.Join(program, runner.Name), "--format=pkgname", "--format-hide-empty-pkg", "--", "-count=1", "-vet=off", "-ldflags=-s -w", "-exec=env GOGC=400",
		"-timeout=2h", "-p=" + strconv.Itoa(cores+1), "-parallel=" + strconv.Itoa(2*cores)}
	err = lend(ctx, append(gotestsum, args...))
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) { // gotestsum has said why
		err = errors.New("run one of the failed tests again: go test -count=1 -run '^NAME$' ./PACKAGE")
	}
	return err
}

var runner = modules.Module{Name: "gotestsum", Programs: map[string]string{"gotestsum": "gotest.tools/gotestsum"}, Env: []string{"CGO_ENABLED=0"}}

// part is what a rig needs.
type part struct {
	name  string
	build func(context.Context) (string, error)
}

// parts are what the rigs outside the box need.
func parts() []part {
	all := []part{
		{"Kubernetes " + kuberig.Version, kuberig.Build},
		{"Prometheus", promrig.Build},
		{"ibsim and ibnetdiscover", ibrig.Build},
		{"lldpd", lldprig.Build},
		{"rpm", packagerig.Build},
		{"gotestsum", runner.Folder},
		{"the base of Quoin's image", images.Base},
	}
	for _, r := range slurmrig.Releases() {
		all = append(all, part{"Slurm " + r.Slurm, r.Build})
	}
	return all
}

// lend runs a command, and lends API servers to the tests in it. The tests find the programs current.
func lend(ctx context.Context, args []string) error {
	dir, err := os.MkdirTemp("", "quoin-lender-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "socket")
	socket, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("lend API servers: %w", err)
	}
	lending, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		loans, started := kuberig.Lend(lending, socket, dir)
		fmt.Printf("%d API servers were lent %d times\n", started, loans)
	}()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), kuberig.Lender+"="+path, programs.Built+"=yes")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	err = cmd.Run()
	stop()
	<-done
	return err
}
