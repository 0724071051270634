package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/nodeagent"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

// connections is how many connections the agents share. Each request has the token of its
// own agent.
const connections = 8

// transport shares the connections, and sets the token of the request's context.
type transport struct {
	all  []http.RoundTripper
	next atomic.Int64
}

func newTransport() *transport {
	t := &transport{}
	for range connections {
		t.all = append(t.all, &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}) // on this machine
	}
	return t
}

type tokenKey struct{}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if token, ok := req.Context().Value(tokenKey{}).(string); ok {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return t.all[t.next.Add(1)%connections].RoundTrip(req)
}

// agents are the clients of all agents.
type agents struct {
	client  kubernetes.Interface
	reports *nodereport.Client
}

func newAgents(c *kuberig.Cluster) (*agents, error) {
	rc := &rest.Config{Host: c.Config().Host, Transport: newTransport(), QPS: -1}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("reach the API server as agents: %w", err)
	}
	reports, err := nodereport.NewClient(rc)
	return &agents{client, reports}, err
}

// agent keeps the report of one node as an agent does, without its daemon.
type agent struct {
	store *nodeagent.KubeStore
	token string
}

func (a *agents) of(node, token string) *agent {
	return &agent{nodeagent.NewKubeStore(a.client, a.reports, node), token}
}

// start reads the stored report, as an agent does when it starts.
func (a *agent) start(ctx context.Context) error {
	_, err := a.store.Get(context.WithValue(ctx, tokenKey{}, a.token))
	return err
}

// report stores a report.
func (a *agent) report(ctx context.Context, n *topology.Node) error {
	text, err := topology.EncodeReport(n)
	if err != nil {
		return err
	}
	if err := a.start(ctx); err != nil {
		return err
	}
	return a.store.Put(context.WithValue(ctx, tokenKey{}, a.token), text)
}
