package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/quoin-hpc/quoin/cmd/version"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/cables"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// reach returns how kubectl reaches the API server, or a Pod. cluster names it for people.
func reach(file, name string) (rc *rest.Config, cluster string, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	if missing := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); file == "" && missing != "" && !anyExists(rules.Precedence) {
		return nil, "", fmt.Errorf("KUBECONFIG=%s: no such file: want a file that says how to reach the API server", missing)
	}
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: name})
	raw, err := loaded.RawConfig()
	if err != nil {
		return nil, "", fmt.Errorf("read kubeconfig: %w", err)
	}
	if clientcmdapi.IsConfigEmpty(&raw) && file+name == "" {
		cluster = "the cluster of this Pod"
		if rc, err = rest.InClusterConfig(); errors.Is(err, rest.ErrNotInCluster) {
			return nil, "", ErrNoCluster
		} else if err != nil {
			return nil, "", fmt.Errorf("reach the API server from this Pod: %w; give --kubeconfig FILE instead", err)
		}
	} else {
		if name == "" {
			name = raw.CurrentContext
		}
		if rc, err = loaded.ClientConfig(); err != nil {
			return nil, "", fmt.Errorf("read kubeconfig: %w", err)
		}
		cluster = "cluster " + name
		if c := raw.Contexts[name]; c != nil {
			cluster += " of " + c.LocationOfOrigin
		}
	}
	return rc, cluster, nil
}

// Reach returns how a program that runs on reaches the API server: by the file, or as a Pod. Such a program never takes
// the kubeconfig of who starts it. qps bounds the requests per second; zero is client-go's bound.
func Reach(file, program string, qps float32) (*rest.Config, kubernetes.Interface, error) {
	rc, err := rest.InClusterConfig()
	if file != "" {
		rc, _, err = reach(file, "")
	} else if err != nil {
		err = fmt.Errorf("find the API server: %w; outside a Pod give --kubeconfig FILE, or --store DIR to work without Kubernetes", err)
	}
	if err != nil {
		return nil, nil, err
	}
	client, err := clientOf(rc, program, qps)
	return rc, client, err
}

// clientOf returns the client of a program. rc gets the program's name and bounds.
func clientOf(rc *rest.Config, program string, qps float32) (kubernetes.Interface, error) {
	rc.UserAgent = program + "/" + version.Number
	rc.QPS, rc.Burst = qps, int(2*qps)
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	return client, nil
}

func anyExists(paths []string) bool {
	for _, path := range paths {
		if _, err := os.Stat(filepath.Clean(path)); err == nil {
			return true
		}
	}
	return false
}

// objects is a cluster as a Store. Its objects are listed.
type objects struct {
	kube.Plans
	session *Session
}

// Snapshot lists what files are made of.
func (o *objects) Snapshot(ctx context.Context) (*inputs.Snapshot, error) {
	snap, err := o.session.readLists(ctx, "the cluster", slices.Concat(nodeLists, podLists(o.session.namingPods())))
	if err != nil {
		return nil, err
	}
	files := publication.FabricFiles(o.session.Config.Clusters())
	snap.Fabrics = cables.NewReader(files, kube.ListFabrics(ctx, o.Client, o.Namespace)).Read()
	return snap, nil
}

func (s *Session) readLists(ctx context.Context, name string, lists []string) (*inputs.Snapshot, error) {
	in, err := openLists(ctx, s.Cluster, lists)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	snap, err := s.readNodes(name, in)
	return snap, cause(err)
}

// Workers lists the worker pods. Without a cluster there are none.
func (s *Session) Workers(ctx context.Context) (*inputs.Snapshot, error) {
	if s.Cluster == nil {
		return &inputs.Snapshot{}, nil
	}
	return s.readLists(ctx, "worker pods", podLists(s.namingPods()))
}
