/* Sends bytes through a device and prints the library's version: host DRIVER. */
#include <stdio.h>
#include <string.h>
#include <vyre_cuda.h>

int main(int count, char **words) {
  const char sent[] = "through the device and back";
  char received[sizeof sent] = {0};
  vyc_driver *driver = NULL;
  vyc_context *context = NULL;
  vyc_buffer *buffer = NULL;
  if (count != 2) return 2;
  if (vyc_driver_open(&driver, words[1]) != VYC_OK) return 3;
  if (vyc_context_open(&context, driver, 0) != VYC_OK) return 4;
  if (vyc_buffer_alloc(&buffer, context, sizeof sent) != VYC_OK) return 5;
  if (vyc_copy_in(buffer, 0, sent, sizeof sent) != VYC_OK) return 6;
  if (vyc_copy_out(buffer, 0, received, sizeof received) != VYC_OK) return 7;
  vyc_buffer_release(buffer);
  vyc_context_release(context);
  vyc_driver_release(driver);
  if (memcmp(sent, received, sizeof sent) != 0) return 8;
  printf("%u\n", (unsigned)vyc_version());
  return 0;
}
