// Package pages reads lists in parts, each in a snapshot of its own and with a bounded number of records.
package pages
