package slurmconf

func isDigit(c byte) bool { return c-'0' <= 9 }
