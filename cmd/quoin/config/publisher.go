package config

// Publisher is the section publisher.
type Publisher struct {
	// Store is the directory to work in. Empty: Kubernetes.
	Store string `yaml:"store"`
	// Kubeconfig is the file that says how to reach the API server. Empty: as a Pod.
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
	Listen         `yaml:",inline"`
	Log            `yaml:",inline"`
}

func defaultPublisher() Publisher {
	return Publisher{Namespace: defaultNamespace, LeaderElect: true, NodeConditions: true, Listen: Listen{Address: ":9836"}, Log: defaultLog}
}

// check says what is wrong with the values.
func (p *Publisher) check(wrong *checks) {
	wrong.want(p.Store == "" || p.Kubeconfig == "", "kubeconfig", p.Kubeconfig, "none beside store")
	p.Listen.check(wrong, p.Store)
	p.Log.check(wrong)
}
