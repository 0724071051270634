// Package images makes the container images of the box, without a registry and without
// Docker: Slurm 26.05 from Debian's packages, Slinky's operator from its Go module. Quoin's is the
// one that make image writes. What does not come from this checkout is made once, and kept in the
// user's cache.
package images

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/quoin-hpc/quoin/cmd/version"
	"github.com/quoin-hpc/quoin/test/rig/modules"
	"github.com/quoin-hpc/quoin/test/rig/process"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

// The images by name.
const (
	Pause      = "docker.io/box/pause:1"
	Operator   = "docker.io/box/slurm-operator:1"
	Slurmctld  = "docker.io/box/slurmctld:26.05-box"
	Slurmd     = "docker.io/box/slurmd:1"
	Slurmrestd = "docker.io/box/slurmrestd:1"
	// DaemonImage has the daemons of ComputeDomains.
	DaemonImage = "docker.io/box/dra-driver:v1"
	// Quoin is the image of make image, without its tag, which is the release.
	Quoin = "docker.io/library/quoin"
)

// MachineFile is where the fake NVML reads its machine: in a folder of the node that the nvidia
// runtime gives to containers with GPUs. DriverFolder is where a node has the driver.
const (
	MachineFile  = "/var/lib/kubelet/plugins/fake-nvml.txt"
	DriverFolder = "/opt/nvidia-driver"
)

// What a container with GPUs gets of DriverFolder, by the same path.
const (
	Library = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
	IMEXCtl = "/usr/bin/nvidia-imex-ctl"
)

// The folders of the operator's module that are kept: what its chart would apply.
const (
	CRDs     = "config/crd/bases"
	Roles    = "config/rbac"
	Webhooks = "config/webhook"
)

// Slinky returns the folder with the operator's programs and files.
func Slinky(ctx context.Context) (string, error) {
	const source = "github.com/SlinkyProject/slurm-operator"
	return modules.Module{Name: "slinky", Env: []string{"CGO_ENABLED=0"}, Source: source, Keep: []string{CRDs, Roles, Webhooks}, Programs: map[string]string{
		"manager": source + "/cmd/manager",
		"webhook": source + "/cmd/webhook",
	}}.Folder(ctx)
}

// Chart returns the folder of Slinky's chart of Slurm, which is in the operator's module.
func Chart(ctx context.Context) (string, error) {
	const chart = "helm/slurm"
	dir, err := modules.Module{Name: "slinky", Source: "github.com/SlinkyProject/slurm-operator", Keep: []string{chart}}.Folder(ctx)
	return filepath.Join(dir, chart), err
}

// DriverRelease is the release of NVIDIA's DRA driver.
const DriverRelease = "0.4.1"

// Driver returns the folder with the programs and templates of NVIDIA's DRA driver.
func Driver(ctx context.Context) (string, error) {
	const source = "sigs.k8s.io/dra-driver-nvidia-gpu"
	m := modules.Module{Name: "nvidiadra", Source: source, Keep: []string{"templates"}, Programs: map[string]string{}}
	for _, name := range []string{"compute-domain-controller", "compute-domain-daemon", "compute-domain-kubelet-plugin"} {
		m.Programs[name] = source + "/cmd/" + name
	}
	return m.Folder(ctx)
}

// Build makes all that does not come from this checkout, or finds it made.
func Build(ctx context.Context) error {
	for _, build := range []func(context.Context) (string, error){slurmRoot, Base, Slinky, Chart, Driver} {
		if _, err := build(ctx); err != nil {
			return fmt.Errorf("make images: %w", err)
		}
	}
	return nil
}

// Write writes archives with all images into a folder and returns their paths.
func Write(ctx context.Context, dir string) ([]string, error) {
	var paths []string
	for _, write := range []func(context.Context, string) (string, error){writeSlurm, writeOperator, writePause, writeDaemon, writeQuoin} {
		path, err := write(ctx, dir)
		if err != nil {
			return nil, fmt.Errorf("make images: %w", err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// entries are the images' entrypoints.
//
//go:embed entry
var entries embed.FS

func writeSlurm(ctx context.Context, dir string) (string, error) {
	root, err := slurmRoot(ctx)
	if err != nil {
		return "", err
	}
	programs := map[string]string{}
	for _, name := range []string{"slurmctld-entry", "slurmd-entry", "hold-log"} {
		text, err := entries.ReadFile("entry/" + name)
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o755); err != nil {
			return "", err
		}
		programs["usr/local/bin/"+name] = path
	}
	entry := filepath.Join(dir, "entry.tar")
	if err := layer(entry, programs); err != nil {
		return "", err
	}
	env, layers := []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, []string{root, entry}
	path := filepath.Join(dir, "slurm.tar")
	return path, archive(path,
		image{name: Slurmctld, entrypoint: []string{"/usr/local/bin/slurmctld-entry"}, env: env, layers: layers},
		image{name: Slurmd, entrypoint: []string{"/usr/local/bin/slurmd-entry"}, env: env, layers: layers},
		image{name: Slurmrestd, entrypoint: []string{"tini", "-g", "--", "slurmrestd"}, env: env, layers: layers})
}

func writeOperator(ctx context.Context, dir string) (string, error) {
	built, err := Slinky(ctx)
	if err != nil {
		return "", err
	}
	programs := filepath.Join(dir, "operator.layer.tar")
	if err := layer(programs, map[string]string{"manager": filepath.Join(built, "manager"), "webhook": filepath.Join(built, "webhook")}); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "operator.tar")
	return path, archive(path, image{name: Operator, entrypoint: []string{"/manager"}, layers: []string{programs}})
}

func writePause(ctx context.Context, dir string) (string, error) {
	built, err := programs.Build(ctx, programs.Pause)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "pause.layer.tar")
	if err := layer(program, map[string]string{"pause": built}); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "pause.tar")
	return path, archive(path, image{name: Pause, entrypoint: []string{"/pause"}, layers: []string{program}})
}

func writeDaemon(ctx context.Context, dir string) (string, error) {
	base, err := Base(ctx)
	if err != nil {
		return "", err
	}
	driver, err := Driver(ctx)
	if err != nil {
		return "", err
	}
	imex, err := programs.Build(ctx, programs.IMEX)
	if err != nil {
		return "", err
	}
	own := filepath.Join(dir, "daemon.layer.tar")
	if err := layer(own, map[string]string{"usr/bin/compute-domain-daemon": filepath.Join(driver, "compute-domain-daemon"),
		"usr/bin/nvidia-imex": imex, "usr/bin/nvidia-imex-ctl": imex}); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "daemon.tar")
	return path, archive(path, image{name: DaemonImage, env: []string{"PATH=/usr/bin:/bin"}, layers: []string{base, own}})
}

// writeQuoin runs what make image runs.
func writeQuoin(ctx context.Context, dir string) (string, error) {
	source, err := programs.Root()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "run", ".", "-arch", runtime.GOARCH, "-out", dir, "image")
	cmd.Dir = filepath.Join(source, "manifests/image")
	if _, err := process.Output(cmd); err != nil {
		return "", fmt.Errorf("make image: %w", err)
	}
	return filepath.Join(dir, fmt.Sprintf("quoin-%s.tar", version.Number)), nil
}
