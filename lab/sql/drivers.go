//go:build !nodrivers

package main

import (
	_ "github.com/mattn/go-sqlite3" // driver "sqlite3": SQLite's C code, by cgo
	_ "modernc.org/sqlite"          // driver "sqlite": SQLite's code translated to Go
)
