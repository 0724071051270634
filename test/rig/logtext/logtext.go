// Package logtext keeps what programs and goroutines write, for a test that reads it meanwhile.
package logtext

import (
	"bytes"
	"sync"
)

// Text is what was written up to now.
type Text struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
