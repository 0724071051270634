package publisher

import (
	"fmt"
	"strconv"
	"strings"
)

// status reads whether a Pod has ended, and the GPUs that a Node offers.
func (l *nodeList) status(o *listed) error {
	return l.object("status", func(key string) error {
		switch {
		case key == "capacity" && l.dec.PeekKind() == '{':
			return l.capacity(o)
		case key == "conditions" && l.dec.PeekKind() == '[':
			return l.conditions(o)
		case key == "phase" && o.kind != "Node":
			phase, err := l.text(key)
			o.ending = o.ending || hasEnded(phase)
			return err
		}
		return l.skip()
	})
}

// conditions reads whether Kubernetes hears from a Node.
func (l *nodeList) conditions(o *listed) error {
	if _, err := l.dec.ReadToken(); err != nil {
		return err
	}
	for l.dec.PeekKind() == '{' {
		var kind, status string
		err := l.object("a condition", func(key string) (err error) {
			switch key {
			case "type":
				kind, err = l.text(key)
			case "status":
				status, err = l.text(key)
			default:
				err = l.skip()
			}
			return err
		})
		if err != nil {
			return err
		}
		o.meta.Lost = o.meta.Lost || kind == "Ready" && status == "Unknown"
	}
	if l.dec.PeekKind() != ']' {
		return fmt.Errorf("conditions: %w", l.unexpected("a condition"))
	}
	_, err := l.dec.ReadToken()
	return err
}

// capacity counts the GPUs that a Node offers. Quantities are text, or numbers.
func (l *nodeList) capacity(o *listed) error {
	var c capacity
	err := l.object("capacity", func(key string) error {
		v, err := l.dec.ReadValue()
		if err != nil || !isGPU(key) {
			return err
		}
		n, err := strconv.ParseInt(strings.Trim(string(v), `"`), 10, 64)
		if err == nil { // else it is no number of devices
			c.add(key, n)
		}
		return nil
	})
	o.meta.GPUs = c.gpus()
	return err
}
