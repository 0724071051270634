package computedomain

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/quoin-hpc/quoin/imex"
)

// ListCommand prints what ReadList reads.
const ListCommand = "kubectl get nodes,pods,resourceclaims,computedomains,computedomaincliques -A -o json"

// ReadList reads the objects that ListCommand prints and returns what is seen, all
// but the nodes. source names the input in errors. A list without ComputeDomains is
// of a cluster that has none.
func ReadList(source string, r io.Reader, config imex.Config) (*imex.Seen, error) {
	l := &list{NewObjects(config)}
	if err := l.read(json.NewDecoder(r)); err != nil {
		return nil, fmt.Errorf("%s: %w: want the output of %s", source, err, ListCommand)
	}
	return l.objects.Seen(), nil
}

type list struct{ objects *Objects }

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

func (l *list) item(text json.RawMessage) error {
	var head struct{ Kind string }
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	return l.objects.Add(head.Kind, text)
}
