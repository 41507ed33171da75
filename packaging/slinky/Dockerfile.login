# Slinky's login image with nic-placement in it: BASE is the image that your values name now.
# srun, sbatch and salloc are typed there, and must know the option too.
#   docker build -f Dockerfile.login --build-arg BASE=REPOSITORY:TAG -t MY/login:TAG FOLDER-WITH-THE-PACKAGES
ARG BASE
FROM ${BASE}
ARG TARGETARCH=amd64
USER root
COPY nic-placement_*_${TARGETARCH}.deb slurm-spank-nic-placement_*_${TARGETARCH}.deb /tmp/nic-placement/
RUN dpkg -i /tmp/nic-placement/*.deb && rm -r /tmp/nic-placement && \
    test -e /usr/lib/nic-placement/libnic_placement.so && nic-placement --version
