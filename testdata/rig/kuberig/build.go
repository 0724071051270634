// Package kuberig runs a real Kubernetes API server for tests: kube-apiserver,
// kubectl and etcd, built once from their Go modules and kept in the user's
// cache. Everything it starts ends with the test process.
package kuberig

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/gofrs/flock"
)

// Version is the Kubernetes release that is built.
const Version = "v1.36.3"

// programs are built from the module in the folder beside this package.
var programs = []struct{ module, pkg, name string }{
	{"kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver"},
	{"kubernetes", "k8s.io/kubernetes/cmd/kubectl", "kubectl"},
	{"etcd", "go.etcd.io/etcd/server/v3", "etcd"},
}

// Build returns the folder with the programs, and builds them when they are not
// there: about five minutes on two cores. Processes that ask at the same time
// wait for one.
func Build(ctx context.Context) (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", fmt.Errorf("build Kubernetes: the source is not there")
	}
	source := filepath.Dir(filepath.Dir(file))
	sum := sha256.New()
	for _, m := range []string{"kubernetes", "etcd"} {
		for _, name := range []string{"go.mod", "go.sum"} {
			data, err := os.ReadFile(filepath.Join(source, m, name))
			if err != nil {
				return "", fmt.Errorf("build Kubernetes: %w", err)
			}
			sum.Write(data)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = "/var/cache"
	}
	dir := filepath.Join(cache, "quoin", "kubernetes-"+Version+"-"+hex.EncodeToString(sum.Sum(nil)[:6]))
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", fmt.Errorf("build Kubernetes: %w", err)
	}
	lock := flock.New(dir + ".lock")
	if err := lock.Lock(); err != nil {
		return "", fmt.Errorf("build Kubernetes: %w", err)
	}
	defer lock.Unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, build(ctx, source, dir)
}

func build(ctx context.Context, source, dir string) error {
	staging := dir + ".new"
	if err := os.RemoveAll(staging); err != nil {
		return fmt.Errorf("build Kubernetes: %w", err)
	}
	for _, p := range programs {
		fmt.Fprintf(os.Stderr, "building %s (once)\n", p.name)
		cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion="+Version,
			"-o", filepath.Join(staging, p.name), p.pkg)
		cmd.Dir = filepath.Join(source, p.module)
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -buildvcs=false", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", p.name, err, out)
		}
	}
	if err := os.Rename(staging, dir); err != nil {
		return fmt.Errorf("build Kubernetes: %w", err)
	}
	return nil
}
