/* This node's architecture in the words of image formats (GOARCH): amd64, arm64 ... */
#ifndef STORE_ARCH_H
#define STORE_ARCH_H

const char *arch_node(void);
#endif
