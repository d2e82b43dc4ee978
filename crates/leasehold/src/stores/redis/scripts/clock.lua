--@time

--@tokens
