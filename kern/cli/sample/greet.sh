#!/bin/sh
echo Hello
