package config

import (
	"net"
	"net/netip"
	"strings"
)

// Publisher is the section publisher.
type Publisher struct {
	// Store is the directory to work in. Empty: Kubernetes.
	Store string `yaml:"store"`
	// Kubeconfig is the file that says how to reach the API server. Empty: as a Pod. Other commands:
	// as kubectl does.
	Kubeconfig string `yaml:"kubeconfig"`
	// Namespace is that of the stored plans and the leader's Lease. In a Pod the default is
	// $NAMESPACE.
	Namespace string `yaml:"namespace"`
	// LeaderElect makes the publisher wait until it is elected. false is for a publisher that runs
	// alone.
	LeaderElect bool `yaml:"leaderElect"`
	// NodeConditions keeps the conditions QuoinFabricDegraded, QuoinImexNotReady and
	// QuoinTopologyDrift on Nodes.
	NodeConditions bool `yaml:"nodeConditions"`
	// MapListen is a loopback address of the page /map, which names users and jobs. Who forwards a
	// port of the Pod sees it, too. Empty: none.
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
	wrong.want(p.MapListen == "" || hasPort(p.MapListen) && IsLoopback(p.MapListen), "mapListen", p.MapListen, "a loopback address with a port, such as 127.0.0.1:9838, because the page asks nobody who they are")
	p.Listen.check(wrong, p.Store)
	p.Log.check(wrong)
}

func hasPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err == nil && port != ""
}

// IsLoopback reports whether an address, with or without a port, names this machine alone.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}
