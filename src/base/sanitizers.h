// Which sanitizer a file is compiled with: PODIUM_ADDRESS_SANITIZER, PODIUM_THREAD_SANITIZER, or
// neither. gcc and clang say so in different ways.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PODIUM_ADDRESS_SANITIZER
#endif
#if __has_feature(thread_sanitizer)
#define PODIUM_THREAD_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(PODIUM_ADDRESS_SANITIZER)
#define PODIUM_ADDRESS_SANITIZER
#endif
#if defined(__SANITIZE_THREAD__) && !defined(PODIUM_THREAD_SANITIZER)
#define PODIUM_THREAD_SANITIZER
#endif
