package main

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/quoin-hpc/quoin/cmd/version"
)

// kubeClient returns how to reach the API server: by the file, or as a Pod. qps bounds the
// requests per second; zero is client-go's bound.
func kubeClient(path, userAgent string, qps float32) (*rest.Config, kubernetes.Interface, error) {
	rc, err := rest.InClusterConfig()
	if path != "" {
		rc, err = clientcmd.BuildConfigFromFlags("", path)
	}
	switch {
	case err != nil && path != "":
		return nil, nil, fmt.Errorf("read kubeconfig: %w", err)
	case err != nil:
		return nil, nil, fmt.Errorf("find the API server: %w; outside a Pod give --kubeconfig FILE, or --store DIR to work without Kubernetes", err)
	}
	rc.UserAgent = userAgent + "/" + version.Number
	rc.QPS, rc.Burst = qps, int(2*qps)
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, nil, fmt.Errorf("reach the API server: %w", err)
	}
	return rc, client, nil
}
