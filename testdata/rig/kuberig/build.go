// Package kuberig runs a real Kubernetes control plane for tests: kube-apiserver,
// kube-controller-manager, kube-scheduler, kubectl, etcd and the controller of
// NVIDIA's DRA driver, built once from their Go modules and kept in the user's
// cache. Everything it starts ends with the test process.
package kuberig

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/gofrs/flock"
)

// Version is the Kubernetes release that is built.
const Version = "v1.36.3"

// module is a folder beside this package's whose go.mod says what is built from it.
type module struct {
	name     string
	programs map[string]string // package by the program's name
	env      []string
	source   string   // the module whose files are kept too
	keep     []string // which files and folders of it
}

var (
	kubernetesModule = module{name: "kubernetes", programs: map[string]string{
		"kube-apiserver":          "k8s.io/kubernetes/cmd/kube-apiserver",
		"kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
		"kube-scheduler":          "k8s.io/kubernetes/cmd/kube-scheduler",
		"kubectl":                 "k8s.io/kubernetes/cmd/kubectl",
	}}
	etcdModule = module{name: "etcd", programs: map[string]string{"etcd": "go.etcd.io/etcd/server/v3"}}
	// The driver's controller is static, for it runs in a root folder of its own.
	computeDomainModule = module{name: "computedomain", programs: map[string]string{
		"compute-domain-controller": "sigs.k8s.io/dra-driver-nvidia-gpu/cmd/compute-domain-controller",
	}, env: []string{"CGO_ENABLED=0"}, source: "sigs.k8s.io/dra-driver-nvidia-gpu", keep: []string{"templates", chart + "/crds", chart + "/templates"}}
)

// Drivers returns the releases of NVIDIA's DRA driver that the rig runs. The first is the
// default, which $QUOIN_DRIVER changes.
func Drivers() []string { return []string{"0.4.1", "0.5.0"} }

// driverModule returns the module of a release of the driver, or of the default.
func driverModule(release string) (module, error) {
	m := computeDomainModule
	switch cmp.Or(release, os.Getenv("QUOIN_DRIVER"), Drivers()[0]) {
	case "0.4.1":
	case "0.5.0":
		m.name = "computedomain05"
	default:
		return module{}, fmt.Errorf("build driver %s: want one of %v", release, Drivers())
	}
	return m, nil
}

// chart is the folder of the driver's Helm chart.
const chart = "deployments/helm/dra-driver-nvidia-gpu"

// Build returns the folder with Kubernetes' own programs, and builds all that the
// rig runs when it is not there: about ten minutes on two cores. Each module has a
// folder of its own and is built anew only when its own go.mod changes.
func Build(ctx context.Context) (string, error) {
	if _, err := etcdModule.folder(ctx); err != nil {
		return "", err
	}
	for _, release := range Drivers() {
		m, err := driverModule(release)
		if err != nil {
			return "", err
		}
		if _, err := m.folder(ctx); err != nil {
			return "", err
		}
	}
	return kubernetesModule.folder(ctx)
}

// folder returns the folder with the module's programs and files, and makes it when
// it is not there. Processes that ask at the same time wait for one.
func (m module) folder(ctx context.Context) (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", fmt.Errorf("build %s: the source is not there", m.name)
	}
	from := filepath.Join(filepath.Dir(filepath.Dir(file)), m.name)
	key, err := m.key(from)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", m.name, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = "/var/cache"
	}
	dir := filepath.Join(cache, "quoin", "rig-"+m.name+"-"+key)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", fmt.Errorf("build %s: %w", m.name, err)
	}
	lock := flock.New(dir + ".lock")
	if err := lock.Lock(); err != nil {
		return "", fmt.Errorf("build %s: %w", m.name, err)
	}
	defer lock.Unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := m.build(ctx, from, dir); err != nil {
		return "", fmt.Errorf("build %s: %w", m.name, err)
	}
	return dir, nil
}

// key is of all that decides what is built.
func (m module) key(from string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, Version, m.programs, m.env, m.keep) // maps print sorted
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return "", err
		}
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6]), nil
}

func (m module) build(ctx context.Context, from, dir string) error {
	staging := dir + ".new"
	if err := os.RemoveAll(staging); err != nil {
		return err
	}
	for name, pkg := range m.programs {
		fmt.Fprintf(os.Stderr, "building %s (once)\n", name)
		if _, err := m.run(ctx, from, "build", "-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion="+Version,
			"-o", filepath.Join(staging, name), pkg); err != nil {
			return err
		}
	}
	if err := m.copySource(ctx, from, staging); err != nil {
		return err
	}
	return os.Rename(staging, dir)
}

// copySource copies what is kept of a module's source.
func (m module) copySource(ctx context.Context, from, to string) error {
	if m.source == "" {
		return nil
	}
	out, err := m.run(ctx, from, "mod", "download", "-json", m.source)
	if err != nil {
		return err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return fmt.Errorf("read where %s is: %w", m.source, err)
	}
	for _, name := range m.keep {
		if err := os.CopyFS(filepath.Join(to, name), os.DirFS(filepath.Join(downloaded.Dir, name))); err != nil {
			return err
		}
	}
	return nil
}

func (m module) run(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOFLAGS=-mod=readonly -buildvcs=false", "GOWORK=off"), m.env...)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, exit.Stderr)
	} else if err != nil {
		return nil, fmt.Errorf("go %s: %w", args[0], err)
	}
	return out, nil
}
