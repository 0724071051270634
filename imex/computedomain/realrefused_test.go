package computedomain

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/quoin-hpc/quoin/imex"
)

// roles are what the rights of a publisher are taken from: those to see the
// domain and its cliques, to make it, and to see pods.
const roles = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: see}
rules:
- {apiGroups: [resource.k8s.io], resources: [deviceclasses], verbs: [list, watch]}
- {apiGroups: [resource.nvidia.com], resources: [computedomains, computedomaincliques], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: make}
rules:
- {apiGroups: [resource.nvidia.com], resources: [computedomains], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pods}
rules:
- {apiGroups: [""], resources: [pods], verbs: [list, watch]}
`

// TestRealRefused gives an observer its rights one after the other.
func TestRealRefused(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.define(t)
	must(t, r.Objects().ApplyText(t.Context(), roles))
	must(t, r.AddAccount(t.Context(), "default", "publisher"))
	allow := func(role string) {
		t.Helper()
		must(t, r.Allow(t.Context(), "default", "publisher", role))
	}
	token, err := r.Token(t.Context(), "default", "publisher", "")
	if err != nil {
		t.Fatal(err)
	}
	rc, err := clientcmd.BuildConfigFromFlags("", token)
	if err != nil {
		t.Fatal(err)
	}
	c := observer(t, rc, imex.Config{Namespace: "default"})
	start(t, c.Run)
	until(t, tick(t), "no rights", func() (bool, string) {
		_, err := c.Snapshot()
		return err != nil && strings.Contains(err.Error(), `the DeviceClasses of NVIDIA's DRA driver not read yet: deviceclasses.resource.k8s.io is forbidden`), err.Error()
	})
	allow("see")
	d := domainIs(t, c, "may not be made", reasonIs(imex.NoDomain))
	if !strings.Contains(d.Problem.Message, `cannot create resource "computedomains"`) || !strings.Contains(d.Problem.Remedy, "allow the publisher") {
		t.Errorf("the problem is %+v", d.Problem)
	}
	until(t, tick(t), "without pods and with a domain that was refused", func() (bool, string) {
		seen, err := c.Ensure(t.Context())
		return err == nil && seen.Workers == nil && seen.Domain == d, fmt.Sprintf("%+v, %v", seen, err)
	})
	allow("make")
	domainIs(t, c, "made once the refusal is old", usable)
	allow("pods")
	until(t, c.Changes(), "pods", func() (bool, string) {
		seen, err := c.Snapshot()
		return err == nil && seen.Workers != nil, "unread"
	})
}

// TestRealNoNamespace wants a domain where it cannot be.
func TestRealNoNamespace(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	r.define(t)
	c := observer(t, r.Config(), imex.Config{Namespace: "nowhere"})
	start(t, c.Run)
	d := domainIs(t, c, "no namespace", func(d imex.Domain) bool { return strings.Contains(d.Problem.Message, "no such namespace") })
	if d.Problem.Reason != imex.NoDomain || d.UID != "" {
		t.Errorf("without a namespace: %+v", d)
	}
	none := observer(t, r.Config(), imex.Config{Namespace: "default", Join: imex.JoinNone})
	start(t, none.Run)
	domainIs(t, none, "none wanted", func(d imex.Domain) bool { return d == imex.Domain{Namespace: "default", Name: imex.DefaultName} })
	if made, err := r.nvidia.ComputeDomains("default").List(t.Context(), metav1.ListOptions{}); err != nil || len(made.Items) != 0 {
		t.Errorf("none wanted, made: %v, %v", made, err)
	}
	if seen, err := none.Snapshot(); err != nil || seen.Join != imex.JoinNone {
		t.Errorf("%+v, %v", seen, err)
	}
}
