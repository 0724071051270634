package boxrig

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"

	"github.com/quoin-hpc/quoin/test/rig/boxrig/images"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/modules"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

// kwokStages are kwok's own descriptions of how nodes and pods become ready, and how they end.
var kwokStages = [...]string{"kustomize/stage/node/fast", "kustomize/stage/node/heartbeat", "kustomize/stage/pod/fast"}

//go:embed coredns.go.txt
var corednsMain string

// built says where the programs are.
type built struct{ kubernetes, etcd, kubelet, coredns, containerd, driver, toolkit, kwok, helm string }

// folders returns the folders of all programs.
func (b built) folders() []string {
	return []string{b.kubernetes, b.etcd, b.kubelet, b.coredns, b.containerd, b.driver, b.toolkit, b.kwok}
}

// Build builds all that the box runs when it is not there: about fifteen minutes on two
// cores.
func Build(ctx context.Context) error {
	if _, err := buildPrograms(ctx); err != nil {
		return err
	}
	return images.Build(ctx)
}

func buildPrograms(ctx context.Context) (b built, err error) {
	const containerd = "github.com/containerd/containerd/cmd/"
	for _, p := range []struct {
		folder *string
		build  func(context.Context) (string, error)
	}{
		{&b.kubernetes, kuberig.Build},
		{&b.etcd, kuberig.Etcd},
		{&b.kubelet, modules.Module{Name: "kubelet", Programs: map[string]string{
			"kubelet": "k8s.io/kubernetes/cmd/kubelet", "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy"}}.Folder},
		{&b.containerd, modules.Module{Name: "containerd", Programs: map[string]string{
			"containerd": containerd + "containerd", "containerd-shim-runc-v2": containerd + "containerd-shim-runc-v2", "ctr": containerd + "ctr"},
			Env: []string{"CGO_ENABLED=0"}}.Folder},
		{&b.driver, images.Driver},
		{&b.helm, func(ctx context.Context) (string, error) {
			program, err := kuberig.HelmProgram(ctx)
			return filepath.Dir(program), err
		}},
		{&b.toolkit, func(ctx context.Context) (string, error) {
			program, err := programs.Build(ctx, programs.Toolkit)
			return filepath.Dir(program), err
		}},
		{&b.kwok, modules.Module{Name: "kwok", Programs: map[string]string{"kwok": "sigs.k8s.io/kwok/cmd/kwok"}, Env: []string{"CGO_ENABLED=0"},
			Source: "sigs.k8s.io/kwok", Keep: kwokStages[:]}.Folder},
		{&b.coredns, modules.Module{Name: "coredns", Programs: map[string]string{"coredns": "."}, Main: corednsMain, Env: []string{"CGO_ENABLED=0"}}.Folder},
	} {
		if *p.folder, err = p.build(ctx); err != nil {
			return b, fmt.Errorf("build the box: %w", err)
		}
	}
	return b, nil
}
