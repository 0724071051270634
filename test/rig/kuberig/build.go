// Package kuberig runs a real Kubernetes control plane for tests: kube-apiserver,
// kube-controller-manager, kube-scheduler, kubectl, Helm, etcd and the controller of
// NVIDIA's DRA driver, built once from their Go modules and kept in the user's
// cache. Everything it starts ends with the test process.
package kuberig

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/quoin-hpc/quoin/test/rig/modules"
)

// Version is the Kubernetes release that is built.
const Version = modules.Kubernetes

var (
	kubernetesModule = modules.Module{Name: "kubernetes", Programs: map[string]string{
		"kube-apiserver":          "k8s.io/kubernetes/cmd/kube-apiserver",
		"kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
		"kube-scheduler":          "k8s.io/kubernetes/cmd/kube-scheduler",
		"kubectl":                 "k8s.io/kubernetes/cmd/kubectl",
	}}
	etcdModule = modules.Module{Name: "etcd", Programs: map[string]string{"etcd": "go.etcd.io/etcd/server/v3"}}
	// The driver's controller is static, for it runs in a root folder of its own.
	computeDomainModule = modules.Module{Name: "computedomain", Programs: map[string]string{
		"compute-domain-controller": "sigs.k8s.io/dra-driver-nvidia-gpu/cmd/compute-domain-controller",
	}, Env: []string{"CGO_ENABLED=0"}, Source: "sigs.k8s.io/dra-driver-nvidia-gpu", Keep: []string{"templates", chart + "/crds", chart + "/templates"}}
)

// Drivers returns the releases of NVIDIA's DRA driver that the rig runs. The first is the
// default, which $QUOIN_DRIVER changes.
func Drivers() []string { return []string{"0.4.1", "0.5.0"} }

// driverModule returns the module of a release of the driver, or of the default.
func driverModule(release string) (modules.Module, error) {
	m := computeDomainModule
	switch cmp.Or(release, os.Getenv("QUOIN_DRIVER"), Drivers()[0]) {
	case "0.4.1":
	case "0.5.0":
		m.Name = "computedomain05"
	default:
		return modules.Module{}, fmt.Errorf("build driver %s: want one of %v", release, Drivers())
	}
	return m, nil
}

// chart is the folder of the driver's Helm chart.
const chart = "deployments/helm/dra-driver-nvidia-gpu"

// Build returns the folder with Kubernetes' own programs, and makes all that the
// rig runs when it is not there: about ten minutes on two cores. Each module has a
// folder of its own, which is built again only if the module's go.mod has changed.
func Build(ctx context.Context) (string, error) {
	for _, m := range []modules.Module{Monitoring.module, Kueue.module, etcdModule, helmModule} {
		if _, err := m.Folder(ctx); err != nil {
			return "", err
		}
	}
	for _, release := range Drivers() {
		m, err := driverModule(release)
		if err != nil {
			return "", err
		}
		if _, err := m.Folder(ctx); err != nil {
			return "", err
		}
	}
	return kubernetesModule.Folder(ctx)
}

// Etcd returns the folder with the program of etcd.
func Etcd(ctx context.Context) (string, error) { return etcdModule.Folder(ctx) }
