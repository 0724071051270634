package config

import (
	"net"
	"net/netip"
)

// Publisher is the section publisher.
type Publisher struct {
	// Store is the directory to work in. Empty: Kubernetes.
	Store string `yaml:"store"`
	// Kubeconfig is the file that says how to reach the API server. Empty: the publisher does it as
	// a Pod, and other commands as kubectl does.
	Kubeconfig string `yaml:"kubeconfig"`
	// Namespace is that of the stored plans and of the leader's Lease. In a Pod the default
	// is $NAMESPACE.
	Namespace string `yaml:"namespace"`
	// LeaderElect makes the publisher wait until it is elected. false publishes at
	// once, for a publisher that runs alone.
	LeaderElect bool `yaml:"leaderElect"`
	// NodeConditions keeps the conditions QuoinFabricDegraded, QuoinImexNotReady and
	// QuoinTopologyDrift on Nodes.
	NodeConditions bool `yaml:"nodeConditions"`
	// MapListen is a loopback address at which everybody on this machine, or who forwards a
	// port of the Pod, sees the map as a page: /map. It names users and jobs. Empty: no such
	// address. With metricsAuthorize the page is at /map of listen, too.
	MapListen string `yaml:"mapListen"`
	Listen    `yaml:",inline"`
	Log       `yaml:",inline"`
}

func defaultPublisher() Publisher {
	return Publisher{Namespace: defaultNamespace, LeaderElect: true, NodeConditions: true, Listen: Listen{Address: ":9836"}, Log: defaultLog}
}

// check says what is wrong with the values.
func (p *Publisher) check(wrong *checks) {
	wrong.want(p.Store == "" || p.Kubeconfig == "", "kubeconfig", p.Kubeconfig, "none beside store")
	wrong.want(p.MapListen == "" || isLoopback(p.MapListen), "mapListen", p.MapListen, "a loopback address with a port, such as 127.0.0.1:9838, because the page asks nobody who they are")
	p.Listen.check(wrong, p.Store)
	p.Log.check(wrong)
}

// isLoopback reports whether only this machine reaches the address.
func isLoopback(address string) bool {
	host, port, err := net.SplitHostPort(address)
	ip, errIP := netip.ParseAddr(host)
	return err == nil && port != "" && (host == "localhost" || errIP == nil && ip.IsLoopback())
}
