package publisher

import "time"

// pause is the time before the next try after so many failed ones. It doubles from first
// up to last.
func pause(failed int, first, last time.Duration) time.Duration {
	return min(first<<min(max(failed-1, 0), 16), last)
}

// once remembers the last text, so that one trouble is logged once.
type once struct{ last string }

// isNew reports whether the text differs from the last one.
func (o *once) isNew(text string) bool {
	if o.last == text {
		return false
	}
	o.last = text
	return true
}

// forget lets the next text be new.
func (o *once) forget() { o.last = "" }
