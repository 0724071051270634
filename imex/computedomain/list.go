package computedomain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
)

// ListCommand prints what ReadList reads.
const ListCommand = "kubectl get nodes,pods,resourceclaims,computedomains,computedomaincliques -A -o json"

// ReadList reads the objects that ListCommand prints and returns what is seen, all
// but the nodes. source names the input in errors. A list without ComputeDomains is
// of a cluster that has none.
func ReadList(source string, r io.Reader, config imex.Config) (*imex.Seen, error) {
	l := &list{domains: newSource(readDomain, nobody), cliques: newSource(readClique, nobody), claims: newSource(readClaim, nobody), pods: newSource(joiningReader(config.Join), nobody)}
	if err := l.read(json.NewDecoder(r)); err != nil {
		return nil, fmt.Errorf("%s: %w: want the output of %s", source, err, ListCommand)
	}
	c := &Cluster{config: config}
	seen := &imex.Seen{Join: config.Join, HostChannels: config.HostChannels, Domain: noDomain(c.config, imex.ReasonNoDomain, fmt.Sprintf("the list has no ComputeDomain %s", c.key()))}
	domains, _ := l.domains.all()
	if facts, there := domains[c.key()]; there {
		seen.Domain = c.judge(&facts)
		seen.Members = make(map[string]imex.Member, len(facts.members))
		for _, m := range facts.members {
			seen.Members[m.Node] = m
		}
	}
	cliques, _ := l.cliques.all()
	for _, clique := range cliques {
		seen.Cliques = append(seen.Cliques, clique)
	}
	claims, _ := l.claims.all()
	pods, _ := l.pods.all()
	seen.Claims = joinClaims(claims, pods)
	if other := c.whoHolds(seen.Claims); other != "" && seen.Domain.UID == "" {
		seen.Domain.Problem.Message = other
	}
	if config.Join == imex.JoinSlurmd {
		seen.Workers = workersOn(pods)
	}
	return seen, nil
}

func nobody() {}

type list struct {
	domains *source[domainFacts]
	cliques *source[imex.Clique]
	claims  *source[claimFacts]
	pods    *source[podFacts]
}

// read takes one List after the other, object by object: a cluster's pods are many
// and large.
func (l *list) read(dec *json.Decoder) error {
	for read := false; ; read = true {
		switch token, err := dec.Token(); {
		case errors.Is(err, io.EOF) && read:
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("empty: kubectl prints nothing where a kind is missing; are the CRDs of NVIDIA's DRA driver there? older ones have no computedomaincliques")
		case err != nil:
			return early(err)
		case token != json.Delim('{'):
			return fmt.Errorf("%v where a list begins", token)
		}
		items := false
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return early(err)
			}
			if key != "items" {
				var other json.RawMessage
				if err := dec.Decode(&other); err != nil {
					return early(err)
				}
				continue
			}
			items = true
			if err := l.items(dec); err != nil {
				return err
			}
		}
		if _, err := dec.Token(); err != nil {
			return early(err)
		}
		if !items {
			return errors.New("no items")
		}
	}
}

func early(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the text ends early")
	}
	return err
}

func (l *list) items(dec *json.Decoder) error {
	if token, err := dec.Token(); err != nil || token != json.Delim('[') {
		return fmt.Errorf("items: %v: no list", token)
	}
	for i := 0; dec.More(); i++ {
		var text json.RawMessage
		if err := dec.Decode(&text); err != nil {
			return early(err)
		}
		if err := l.item(text); err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	_, err := dec.Token()
	return early(err)
}

// item keeps the facts of an object of a kind that has some.
func (l *list) item(text json.RawMessage) error {
	var head struct{ Kind string }
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	switch head.Kind {
	case "ComputeDomain":
		return add(l.domains, text, &nvapi.ComputeDomain{})
	case "ComputeDomainClique":
		return add(l.cliques, text, &nvapi.ComputeDomainClique{})
	case "ResourceClaim":
		return add(l.claims, text, &resourcev1.ResourceClaim{})
	case "Pod":
		if !bytes.Contains(text, []byte("resourceClaims")) && !bytes.Contains(text, []byte(slurmdName)) {
			return nil // most have no claims and are not Slurm's, and are long
		}
		return add(l.pods, text, &corev1.Pod{})
	}
	return nil
}

func add[T any](s *source[T], text json.RawMessage, object any) error {
	if err := json.Unmarshal(text, object); err != nil {
		return err
	}
	return s.Add(object)
}
