// Command run builds what the tests need, compiles the tests, and runs them: first all of the
// one, then all of the other, so that no test competes with a compiler. It says which step it
// is in, prints a line when the tests of a package end, and says at the end what failed.
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
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/ibrig"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/lldprig"
	"github.com/quoin-hpc/quoin/test/rig/packagerig"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/promrig"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if !errors.Is(err, errFailed) && !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
}

// errFailed says that tests have failed. What failed was printed.
var errFailed = errors.New("tests failed")

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	onlySetup := flags.Bool("setup", false, "build what the tests need, and stop")
	o := options{out: os.Stdout}
	// Most tests on real parts wait for most of their time, so there are more than cores.
	cores := runtime.GOMAXPROCS(0)
	flags.IntVar(&o.packages, "p", cores+1, "run the tests of so many `packages` at once")
	flags.IntVar(&o.parallel, "parallel", 2*cores, "run so many tests of a package at once")
	flags.StringVar(&o.run, "run", "", "run the tests whose names match the `regexp`")
	flags.StringVar(&o.skip, "skip", "", "leave out the tests whose names match the `regexp`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := setup(ctx); err != nil || *onlySetup {
		return err
	}
	tests, err := compile(ctx, flags.Args())
	if err != nil {
		return err
	}
	step("%d packages have tests. %d at once run, and %d tests of each", len(tests), o.packages, o.parallel)
	stopLender, err := lend(ctx)
	if err != nil {
		return err
	}
	defer stopLender()
	return o.runAll(ctx, tests)
}

var begun = time.Now()

// step says what begins.
func step(format string, args ...any) {
	fmt.Printf("== %s  %s\n", clock(time.Since(begun)), fmt.Sprintf(format, args...))
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// setup builds and fetches what the tests run, if it is not in the cache.
func setup(ctx context.Context) error {
	step("what the tests run: a real Slurm, Kubernetes, Prometheus, ibnetdiscover, lldpd and rpm (the first time ten minutes on two cores)")
	for _, r := range slurmrig.Releases() {
		if err := slurmrig.Build(ctx, r); err != nil {
			return err
		}
		fmt.Printf("Slurm %s is in %s\n", r.Slurm, r.Root())
	}
	kubernetes, err := kuberig.Build(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("Kubernetes %s is in %s\n", kuberig.Version, kubernetes)
	prometheus, err := promrig.Build(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("Prometheus is in %s\n", prometheus)
	infiniband, err := ibrig.Build(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("ibsim and ibnetdiscover are in %s\n", infiniband)
	lldp, err := lldprig.Build(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("lldpd is in %s\n", lldp)
	packages, err := packagerig.Build(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("rpm is in %s\n", packages)
	return nil
}

// testProgram is the compiled tests of a package.
type testProgram struct{ pkg, dir, path string }

// compile compiles the tests of packages, and the programs that they run.
func compile(ctx context.Context, packages []string) ([]testProgram, error) {
	step("compile the tests (the first time six minutes on two cores)")
	if err := programs.BuildAll(ctx); err != nil {
		return nil, err
	}
	if err := os.Setenv(programs.Built, "yes"); err != nil {
		return nil, err
	}
	folder, err := programs.Folder()
	if err != nil {
		return nil, err
	}
	const format = `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}`
	list, err := exec.CommandContext(ctx, "go", append([]string{"list", "-f", format}, packages...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", said(err))
	}
	// go test names a program by the last word of its package. So packages of one such word have
	// their programs in folders of their own.
	var tests []testProgram
	groups, seen := map[string][]string{}, map[string]int{}
	for line := range strings.Lines(string(list)) {
		pkg, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		name := filepath.Base(pkg)
		group := filepath.Join(folder, fmt.Sprintf("tests-%d", seen[name]))
		seen[name]++
		groups[group] = append(groups[group], pkg)
		tests = append(tests, testProgram{pkg: pkg, dir: dir, path: filepath.Join(group, name+".test")})
	}
	for group, pkgs := range groups {
		if err := os.MkdirAll(group, 0o755); err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", group + "/"}, pkgs...)...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("compile the tests: %w", err)
		}
	}
	return tests, nil
}

// said adds what a program wrote to stderr to the error of its end.
func said(err error) error {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("%w\n%s", err, exit.Stderr)
	}
	return err
}
