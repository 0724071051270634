package manifests_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// try is one thing that a token may or may not do.
type try struct {
	name    string
	do      request
	refused string // part of the message, empty when it must work
}

// noRight is part of the message if no role gives the right. A policy refuses by other words.
const noRight = "is forbidden: User "

func (y try) run(t *testing.T, o *kuberig.Objects) {
	t.Helper()
	t.Run(y.name, func(t *testing.T) {
		err := y.do(t.Context(), o)
		switch {
		case y.refused == "" && err != nil:
			t.Error(err)
		case y.refused != "" && err == nil:
			t.Error("worked")
		case y.refused != "" && !strings.Contains(err.Error(), y.refused):
			t.Errorf("refused by another reason than %q: %v", y.refused, err)
		}
	})
}

// request is what somebody asks of the API server.
type request func(ctx context.Context, o *kuberig.Objects) error

func creates(text string) request {
	return func(ctx context.Context, o *kuberig.Objects) error { return o.Create(ctx, text) }
}

func replaces(text string) request {
	return func(ctx context.Context, o *kuberig.Objects) error { return o.Replace(ctx, text) }
}

// patches merges a patch into an object that it may read, too.
func patches(resource, namespace, name, patch string) request {
	return func(ctx context.Context, o *kuberig.Objects) error {
		if err := o.Patch(ctx, resource, namespace, name, patch); err != nil {
			return err
		}
		_, err := o.Get(ctx, resource, namespace, name)
		return err
	}
}

func deletes(resource, namespace, name string) request {
	return func(ctx context.Context, o *kuberig.Objects) error { return o.Delete(ctx, resource, namespace, name) }
}

func gets(resource, namespace, name string) request {
	return func(ctx context.Context, o *kuberig.Objects) error {
		_, err := o.Get(ctx, resource, namespace, name)
		return err
	}
}

func lists(resources, namespace string) request {
	return func(ctx context.Context, o *kuberig.Objects) error {
		_, err := o.List(ctx, resources, namespace)
		return err
	}
}

// withLabel is a patch that writes a label, or takes it away if the value is nil.
func withLabel(key string, value any) string { return withMetadata("labels", key, value) }

// withAnnotation is such a patch of an annotation.
func withAnnotation(key string, value any) string { return withMetadata("annotations", key, value) }

func withMetadata(what, key string, value any) string {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{what: map[string]any{key: value}}})
	if err != nil {
		panic(err) // a string or nil
	}
	return string(patch)
}

// configMap is an empty one.
func configMap(namespace, name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: " + namespace + ", name: " + name + "}\n"
}

// nodeReport is a report without facts.
func nodeReport(name string) string {
	return "apiVersion: quoin.dev/v1alpha1\nkind: NodeReport\nmetadata: {name: " + name + "}\nnode: " + name + "\n"
}

// objectsOf has the rights of a kubeconfig.
func objectsOf(t *testing.T, c *kuberig.Cluster, kubeconfig string) *kuberig.Objects {
	t.Helper()
	o, err := c.ObjectsOf(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// waitForReportPolicy waits until the API server has loaded the admission policy that ties
// an agent's token to its own report.
func waitForReportPolicy(t *testing.T, o *kuberig.Objects) {
	t.Helper()
	waitForRefusal(t, o, nodeReport("probe"), "may write NodeReport")
}

// waitForPolicy waits until the API server has loaded the admission policy that
// keeps a token from the ConfigMap probe.
func waitForPolicy(t *testing.T, o *kuberig.Objects, namespace string) {
	t.Helper()
	waitForRefusal(t, o, configMap(namespace, "probe"), "may write ConfigMap")
}

func waitForRefusal(t *testing.T, o *kuberig.Objects, text, refused string) {
	t.Helper()
	await.Until(t, "the admission policy is in force", func() bool {
		err := o.Create(t.Context(), text, metav1.DryRunAll)
		return err != nil && strings.Contains(err.Error(), refused)
	})
}
