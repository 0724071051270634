package kube

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
)

// selector is a label selector of Kubernetes.
type selector struct{ labels labels.Selector }

// ParseSelector reads a label selector of Kubernetes, such as "pool in (a,b),!spare".
func ParseSelector(text string) (inputs.Selector, error) {
	s, err := labels.Parse(text)
	if err != nil {
		return nil, err
	}
	return selector{s}, nil
}

// Matches reports whether an object with these labels is chosen.
func (s selector) Matches(of map[string]string) bool { return s.labels.Matches(labels.Set(of)) }

// Keys are the keys of the labels that the selector looks at.
func (s selector) Keys() []string {
	var keys []string
	requirements, _ := s.labels.Requirements()
	for i := range requirements {
		keys = append(keys, requirements[i].Key())
	}
	return keys
}
