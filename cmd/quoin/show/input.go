package show

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Unopened says in one sentence why an input could not be opened or read: it is not there, or is a directory. want says
// what the command wants there, such as "a file with a site". Another error stays as it is.
func Unopened(err error, name, want string) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is not there: want %s", name, want)
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%s is a directory: want %s", name, want)
	}
	return err
}
